"""Readers of trace files: a module or package per format, one line here for each.

A reader has FORMAT (what others need to know about the format), `recognises(source)` that looks at
the content of one file (never at its name alone), `read(source, staged)` that makes something of
one file, in a process of its own, and a class `Import(sink)` that gets what was made of each file,
by `add_file(found)`, and then `finish()`. docs/adding-a-reader.md walks through one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from ingest.readers.base import Format
from ingest.readers.parsing.sources import Source

if TYPE_CHECKING:
    from ingest.readers.base import Import, Sink
    from ingest.readers.tables.staged_rows import StagedRows

FORMATS = (
    "rankscope_trace",
    "kineto",
    "straggler_analysis",
    "flight_recorder",
    "ndtimeline",
    "megascan",
    "phase_log",
    "nccl_inspector",
    "nccl_ras",
    "xpu_timer",
    "xpu_timer_ascend",
    "nsys",
    "rocpd",
    "stack_dumps",
    "chrome_trace",
    "prometheus",
    "wandb_system",
    "tensorboard",
    "hf_trainer_state",
    "lightning_csv",
    "logs",
)
"""Names of the readers, in the order in which they look at a file."""


class Reader(Protocol):
    """A module or package of this package."""

    FORMAT: Format

    def recognises(self, source: Source) -> bool:
        """Whether the file's content is of this format."""

    def read(self, source: Source, staged: StagedRows) -> Any:
        """Read one file; returns what Import.add_file shall get, or None for nothing.

        It can be pickled, and holds rows only where they are few: others are staged. What is
        added to `staged` itself goes into the run in any case: what is damaged, as a problem.
        """

    def Import(self, sink: Sink) -> Import:
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
    return next(reader for reader in readers() if name == reader.FORMAT.name)


def format_facts(source: str) -> Format:
    """Facts about the format of a run's files, by the run's `source`.

    Where no file was read for it (the job recorded it, or it was generated) the name is the title.
    """
    if source in FORMATS:
        return _reader(source).FORMAT
    return Format(source, source, layout_from="job")
