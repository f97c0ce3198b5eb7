"""What a reader finds in one file, staged until the run takes it or leaves it out.

Rows lie in files from the beginning, so that they cost no memory and are moved by a rename; the
rest is remembered. Staged rows can be pickled: files are read in processes of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.readers.base import Sink
from ingest.run_folder.run_writer import check_rank, has_start, write_rows
from trace_hooks.schema import RankInfo


class StagedRows:
    """A sink that keeps what it is given; rows go into files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._given: list[tuple[str, tuple[Any, ...]]] = []

    @property
    def started_ns(self) -> int | None:
        """When the first of the staged ranks started, where a rank has it; Unix ns."""
        infos = (values[0] for method, values in self._given if method == "add_rank")
        return next((info["started_ns"] for info in infos if has_start(info)), None)

    def another(self) -> StagedRows:
        """An empty one, for what the run may leave out."""
        return StagedRows(self._folder)

    def give_to(self, sink: Sink) -> None:
        """Hand everything over, in the order in which it came."""
        for method, values in self._given:
            getattr(sink, method)(*values)
        self._given.clear()

    def revise(self, table: str, revised: Callable[[pa.Table], pa.Table]) -> None:
        """Replace the staged rows of a table; raises UserError where that cannot be written."""
        for method, values in self._given:
            if method == "adopt_rows" and values[0] == table:
                path = values[-1]
                write_rows(revised(pq.read_table(path)), path)

    def drop(self) -> None:
        """Remove the rows."""
        for method, values in self._given:
            if method == "adopt_rows":
                values[-1].unlink(missing_ok=True)
        self._given.clear()

    def add_rows(self, table: str, rank: int, rows: pa.Table) -> None:
        """Write them into a file; raises UserError where that cannot be."""
        path = self._folder / f"{uuid4().hex}.parquet"
        write_rows(rows, path)
        self.adopt_rows(table, rank, path)

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows that lie in a file already."""
        self._given.append(("adopt_rows", (table, rank, path)))

    def add_rank(self, info: RankInfo) -> None:
        """Raises ValueError for a rank that no job has."""
        check_rank(info)
        self._given.append(("add_rank", (info,)))

    def add_guess(self, text: str) -> None:
        """Something a reader decided."""
        self._given.append(("add_guess", (text,)))

    def add_problem(self, text: str) -> None:
        """Something that could not be read."""
        self._given.append(("add_problem", (text,)))

    def ranks_by_pid(self) -> None:
        """The reader says which ranks there are."""

    def count_events(self, rank: int, num_events: int) -> None:
        """Elements of a file's list of events."""
        self._given.append(("count_events", (rank, num_events)))

    def set_clock(self, clock: str) -> None:
        """What times mean."""
        self._given.append(("set_clock", (clock,)))
