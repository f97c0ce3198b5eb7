"""Lines of the kernel about one process, and whether that process was of this job."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diagnosis.first_cause.lines import Line

_KILL = "kernel_oom"
_KILLED = re.compile(r"Kill(?:ed)? process")
"""Of the killer's lines the one that names its victim."""
_CRASHES = ("segfault", "bus_error")
_LOADER = "DataLoader"
_TOGETHER_NS = 10e9
"""Within this the killer announces itself, lists all processes, and names the one that it kills."""


def of_this_job(
    lines: Sequence[Line], signs: Sequence[Mapping[str, Any]], hosts: Collection[str | None] = ()
) -> list[Line]:
    """The lines without kills and crashes of somebody else's processes.

    `signs`: rows of last_signs. Where hooks saw all ranks and none has ended, none was killed.
    `hosts`: where the processes of all ranks are known. There a crash of another one counts
    only where a log speaks of a data loader, whose workers are processes, too; and the killer's
    announcement only once its victim stands behind it.
    """
    if signs and not any(row["status"] or row["is_lost"] for row in signs):
        return [line for line in lines if not _is_kill(line) and not _is_crash(line)]
    has_loader = any(_LOADER in line.text for line in lines)
    victims = [line for line in lines if _is_kill(line) and not _is_announcement(line)]
    found = []
    for line in lines:
        is_ours = line.rank >= 0 or line.host not in hosts
        if _is_announcement(line) and line.rank < 0:
            behind = _victims_of(line, victims)
            if behind or is_ours:
                found.append(replace(line, rank=behind[0].rank) if behind else line)
        elif is_ours or has_loader or not _is_crash(line):
            found.append(line)
    return found


def _victims_of(line: Line, victims: Sequence[Line]) -> list[Line]:
    """Whom the killer names behind an announcement, ranks first."""
    of_host = (v for v in victims if v.host == line.host)
    near = (v for v in of_host if 0 <= v.begin_ns - line.begin_ns <= _TOGETHER_NS)
    return sorted(near, key=lambda victim: victim.rank < 0)


def _is_announcement(line: Line) -> bool:
    return _is_kill(line) and not _KILLED.search(line.text)


def _is_kill(line: Line) -> bool:
    return line.is_of_kernel and line.name.startswith(_KILL)


def _is_crash(line: Line) -> bool:
    return line.is_of_kernel and line.name in _CRASHES
