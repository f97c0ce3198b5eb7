"""What a reader hands over, and the sink that gets it: the interfaces of an import."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from trace_hooks.schema import RankInfo


class Sink(Protocol):
    """Where a reader puts what it finds; every method may be called many times, in any order."""

    def add_rows(self, table: str, rank: int, rows: pa.Table) -> None:
        """Rows of one table of the schema, all of one rank."""

    def adopt_rows(self, table: str, rank: int, path: Path) -> None:
        """Rows that lie in a Parquet file already, which is moved away from there."""

    def add_rank(self, info: RankInfo) -> None:
        """What a rank is; a second one of the same rank replaces the first."""

    def add_guess(self, text: str) -> None:
        """Something the files do not say and the reader decided, in a sentence."""

    def add_problem(self, text: str) -> None:
        """Something that could not be read, with the file's name, in a sentence."""

    def count_events(self, rank: int, num_events: int) -> None:
        """Elements of a file's list of events, where the format has one; rank -1: not told."""

    def set_clock(self, clock: str) -> None:
        """What times mean: absolute (the default), per_step_relative or unknown."""


class Reading(Protocol):
    """What was made of the files of one import, put together."""

    def take(self, found: Any) -> None:
        """What `read` made of one file; files come in their order."""

    def finish(self) -> None:
        """All files were taken."""
