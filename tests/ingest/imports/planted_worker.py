"""The process that reads files, with one reader more: of files that say what shall go wrong.

Their content is `planted RANK WHAT`, where WHAT is fine, meet or a method of `_Wrong`. Rank 666
ends the process that puts parts together, rank 777 the one that shows its part early.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from ingest import readers as registry
from ingest.imports import worker
from ingest.imports.parts import Part
from ingest.readers.base import Format, Sink
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.staged_rows import StagedRows


def _meet() -> None:
    """Wait until another process reads such a file, too."""
    place = Path(os.environ["TMPDIR"])
    (place / f"met-{os.getpid()}").touch()
    until_s = time.monotonic() + 60
    while len(list(place.glob("met-*"))) < 2:
        if time.monotonic() > until_s:
            raise TimeoutError("nobody came")
        time.sleep(0.01)


class _Wrong:
    def crash(self) -> None:
        os.abort()

    def hang(self) -> None:
        time.sleep(600)

    def spin(self) -> None:
        while True:
            pass

    def eat(self) -> None:
        held = []
        while True:
            held.append(np.ones(1 << 20))

    def leave(self) -> None:
        sys.exit(5)

    def write(self) -> None:
        with Path(os.environ["TMPDIR"], "large").open("wb") as file:
            while True:
                file.write(bytes(1 << 20))


class _Planted:
    """The reader, and one import."""

    FORMAT = Format("planted", "planted")

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(b"planted ")

    def read(self, source: Source, staged: StagedRows) -> tuple[int, StagedRows]:
        _, rank, what = source.head.decode().split()
        if what == "meet":
            _meet()
        elif what != "fine":
            getattr(_Wrong(), what)()
        own = staged.another()
        own.add_rank(rank_info(int(rank)))
        columns = {"rank": int(rank), "step": 0, "start_ns": int(rank), "dur_ns": 1}
        own.add_rows("steps", int(rank), rows("steps", 1, columns))
        return int(rank), own

    def Import(self, sink: Sink) -> _Planted:
        self._sink = sink
        return self

    def add_file(self, found: tuple[int, StagedRows]) -> None:
        rank, staged = found
        if rank == 666:
            os.abort()
        staged.give_to(self._sink)

    def finish(self) -> None:
        pass


def _show(part: Part, _folder: Path) -> bool:
    if part.value is not None and part.value[0] == 777:
        os.abort()
    return False


if __name__ == "__main__":
    worker._show = _show
    known = [*registry.readers(), _Planted()]
    registry.readers = lambda: known  # type: ignore[assignment]
    worker.main()
