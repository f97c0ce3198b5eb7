"""Readers of trace files: one module per format, one line here for each.

A reader module has NAME (the `format` of info), `recognises(source)` that looks at the content of
one file (never at its name alone), `read(source, shelf)` that makes something of one file, in a
process of its own, and a class `Reading(sink)` that gets what was made of each file, by
`take(found)`, and then `finish()`. docs/adding-a-reader.md walks through one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from ingest.readers.parsing.sources import Source
from trace_hooks.schema import RankInfo

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.readers.tables.staged_rows import Shelf

FORMATS = (
    "rankscope_trace",
    "kineto",
    "straggler_analysis",
    "flight_recorder",
    "megascan",
    "phase_log",
    "nccl_inspector",
    "xpu_timer",
    "nsys",
    "rocpd",
    "chrome_trace",
)

GENERIC = ("chrome_trace",)
"""Formats that say little of what a file is: among files of another format they are left out."""


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


class Reader(Protocol):
    """A module of this package."""

    NAME: str

    def recognises(self, source: Source) -> bool:
        """Whether the file's content is of this format."""

    def read(self, source: Source, shelf: Shelf) -> Any:
        """Read one file; returns what Reading.take shall get, or None for nothing.

        It can be pickled, and holds rows only where they are small: others lie on a shelf. What
        is said to `shelf` goes into the run in any case: what is damaged, as a problem.
        """

    def Reading(self, sink: Sink) -> Reading:
        """A new import."""


def readers() -> Iterator[Reader]:
    """All readers, each imported when its turn comes: most files are of one of the first."""
    return map(_reader, FORMATS)


@cache
def _reader(name: str) -> Reader:
    return cast(Reader, import_module(f"ingest.readers.{name}"))


def reader_of(source: Source) -> Reader | None:
    """The reader whose format the file has; None for one that is empty."""
    if not source.head:
        return None
    return next((reader for reader in readers() if reader.recognises(source)), None)


def reader_named(name: str) -> Reader:
    """The reader of a format."""
    return next(reader for reader in readers() if name == reader.NAME)
