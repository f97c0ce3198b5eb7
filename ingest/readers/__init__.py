"""Readers of trace files: one module per format, one line here for each.

A reader module has NAME (the `format` of info), `recognises(source)` that looks at the content of
one file (never at its name alone), and a class `Reading(sink)` with `add(source)` for every file
it recognised and `finish()`. docs/adding-a-reader.md walks through one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

import pyarrow as pa

from ingest.readers.inputs import Source
from trace_hooks.schema import RankInfo

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
    """One import in progress."""

    def add(self, source: Source) -> None:
        """Read one file now; what is damaged goes to the sink as a problem."""

    def finish(self) -> None:
        """All files were added."""


class Reader(Protocol):
    """A module of this package."""

    NAME: str

    def recognises(self, source: Source) -> bool:
        """Whether the file's content is of this format."""

    def Reading(self, sink: Sink) -> Reading:
        """A new import."""


@cache
def readers() -> Sequence[Reader]:
    """All readers, imported on first use."""
    return [cast(Reader, import_module(f"ingest.readers.{name}")) for name in FORMATS]


def reader_of(source: Source) -> Reader | None:
    """The reader whose format the file has."""
    return next((reader for reader in readers() if reader.recognises(source)), None)
