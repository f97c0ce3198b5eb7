"""Folders of logs built by hand, and the lines that an import makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.reader_results import Imported

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/train/train.py", line 312, in <module>\n'
    "    main()\n"
    "RuntimeError: CUDA error: device-side assert triggered"
)


class Line(NamedTuple):
    """The columns that most tests look at."""

    file: str
    line: int
    rank: int
    host: str
    stream: str
    ts_ns: int
    timed: str
    level: str
    label: str
    text: str
    count: int


def write_logs(folder: Path, logs: Mapping[str, str | bytes]) -> Path:
    """Files of these names below `folder`; returns it."""
    for name, content in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def lines_of(run: Imported) -> list[Line]:
    """All rows of log_lines by file and line."""
    return sorted(Line(*row) for row in run.rows("log_lines", *Line._fields))


def imported_lines(folder: Path, runs: Path, logs: Mapping[str, str | bytes]) -> list[Line]:
    """What an import of these logs makes of them."""
    return lines_of(Imported(write_logs(folder, logs), into=runs))


def column(lines: list[Line], *names: str) -> list[Any]:
    """Some fields of each line; of one name its values."""
    rows = [tuple(getattr(line, name) for name in names) for line in lines]
    return [row[0] for row in rows] if len(names) == 1 else rows
