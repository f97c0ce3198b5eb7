"""Lines of the kernel's out-of-memory killer: whom it killed, and whether that was a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from diagnosis.first_cause.lines import Line

_NAME = "kernel_oom"
_TOGETHER_NS = 10e9
"""Within this the killer announces itself, lists all processes, and names the one that it kills."""


def of_this_job(lines: Sequence[Line], signs: Sequence[Mapping[str, Any]]) -> list[Line]:
    """The lines without kills of somebody else's processes; `signs`: rows of last_signs.

    Where hooks saw all ranks and none of them has ended, none was killed.
    """
    if signs and not any(row["status"] or row["is_lost"] for row in signs):
        return [line for line in lines if not _is_kill(line)]
    victims = [line for line in lines if _is_kill(line) and line.rank >= 0]
    return [_of_victim(line, victims) for line in lines]


def _of_victim(line: Line, victims: Sequence[Line]) -> Line:
    """An announcement with the rank that the killer names behind it."""
    if line.rank >= 0 or not _is_kill(line):
        return line
    of_host = (v for v in victims if v.host == line.host)
    near = [v for v in of_host if 0 <= v.begin_ns - line.begin_ns <= _TOGETHER_NS]
    return replace(line, rank=near[0].rank) if near else line


def _is_kill(line: Line) -> bool:
    return line.is_of_kernel and line.name.startswith(_NAME)
