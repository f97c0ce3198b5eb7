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

from ingest.readers.parsing.sources import Source

if TYPE_CHECKING:
    from ingest.readers.base import Reading, Sink
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
