"""The process under attack: executes statements that come through a socket, until it is closed.

Its output goes to files that are watched, and the socket can't be opened through /proc/self/fd.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from tests.hostile.free_sql.sql_target import Outcome, Target
from tests.hostile.sql.leaks import Leaks

_LONGEST_MESSAGE = 2000


def has_values(table: pa.Table | None) -> bool:
    """Whether the answer holds anything but NULL."""
    return table is not None and any(c.null_count < len(c) for c in table.columns)


def digest(outcome: Outcome) -> str:
    """Of the whole answer."""
    rows = outcome.table.to_pylist() if outcome.table is not None else outcome.message
    return hashlib.sha256(f"{outcome.kind} {rows}".encode()).hexdigest()[:16]


def main() -> None:
    """Arguments: number of the socket, run folder, layers, paths to look for, a file to open."""
    number, run, layers, paths, opened = sys.argv[1:]
    leaks = Leaks(paths.split(os.pathsep))
    target = Target(Path(run), frozenset(filter(None, layers.split(","))))
    tempfile.gettempdir()  # tries itself out by writing; once
    with Connection(os.dup(int(number))) as asker, Path(opened).open(encoding="utf-8"):
        asker.send(target.limits)
        while True:
            try:
                text, wants_digest = asker.recv()
            except EOFError:
                break
            outcome = target.execute(text)
            asker.send(
                (
                    outcome.kind,
                    outcome.message[:_LONGEST_MESSAGE],
                    outcome.num_rows,
                    leaks.found(text, outcome),
                    has_values(outcome.table),
                    digest(outcome) if wants_digest else "",
                )
            )
    target.close()


if __name__ == "__main__":
    main()
