"""Ranks that texts name: NCCL those within a communicator, torchrun those that failed on a host."""

from __future__ import annotations

import re

_IN_COMMUNICATOR = re.compile(r"\brank (\d{1,6}) nranks (\d{1,6})\b")
_FAILED = re.compile(
    r"^ *host *: (\S{1,200})\s*\n *rank *: (\d{1,6}) \(local_rank: (\d{1,5})\)", re.MULTILINE
)


def rank_in_communicator(text: str) -> tuple[int, int] | None:
    """Rank and size of the communicator that a process enters; None where a line names none."""
    if " nranks " not in text:
        return None
    match = _IN_COMMUNICATOR.search(text[:400])
    return None if match is None else (int(match[1]), int(match[2]))


def first_ranks_of_hosts(box: str) -> dict[str, int]:
    """Hosts in torchrun's box on a failure -> global rank of their local rank 0."""
    found = {match[1]: int(match[2]) - int(match[3]) for match in _FAILED.finditer(box)}
    return {host: first for host, first in found.items() if first >= 0}
