"""Asks a tool about one job, and checks its answer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from pathlib import Path

Rival = Callable[[Path], Iterable[int]]
"""From the folder that a job leaves to the ranks that a tool blames."""


def ranks_named(rival: Rival, folder: Path, num_ranks: int) -> tuple[list[int], str]:
    """The ranks that a tool names, sorted, and why its answer does not count, empty if it does."""
    try:
        answer = list(rival(folder))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # its crash is a result
        return [], f"{type(error).__name__}: {error}"
    try:
        ranks = {operator.index(rank) for rank in answer}
    except TypeError:
        return [], f"{answer!r:.80}: ranks are whole numbers"
    if not ranks <= set(range(num_ranks)):
        return [], f"{answer!r:.80}: the job has ranks 0 to {num_ranks - 1}"
    return sorted(ranks), ""
