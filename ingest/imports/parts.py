"""Files as parts, parts as a run: each file is read by itself, then the run takes what was found.

Reading one file knows nothing of the others, so that many can be read at once and a file that ends
its process costs itself only. What needs all of them (ranks that no file names, two files of one
rank, members of groups) is decided when the parts are put together, in the order of the files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.errors import UserError, disk_error, is_full, printable
from ingest.imports.accompanying import AccompanyingSink
from ingest.limits import limits, variable
from ingest.readers import format_facts, reader_named, reader_of
from ingest.readers.base import Sink
from ingest.readers.parsing.sources import Source, sources
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.unsupported import is_empty_log, what_it_is
from ingest.run_folder.run_writer import RunWriter

LEFT_OUT = ", left out"
_LOG = logging.getLogger(__name__)
_LONGEST_REASON = 200


@dataclass
class Part:
    """One file (or member of an archive), read."""

    name: str
    format: str
    """name of its reader; empty where none knows it"""
    staged: StagedRows
    """problems and guesses of the file itself"""
    value: Any = None
    """what the reader made of it; None where nothing is to be taken"""
    is_empty_log: bool = False
    """what is no problem among files that can be read"""


def parts_of(
    path: Path,
    folder: Path,
    on_bytes: Callable[[int], None],
    is_mine: Callable[[int, str], bool],
) -> Iterator[tuple[int, Part]]:
    """Read a file on disk, or every file of an archive, numbered from 0; rows go to `folder`.

    `on_bytes` gets the number of bytes read of the file on disk; `is_mine` the number and name of
    what comes next, and returns whether to read it.
    """
    for number, source in enumerate(sources([path], on_bytes)):
        if is_mine(number, source.name):
            yield number, _part_of(source, StagedRows(folder))


def _part_of(source: Source, staged: StagedRows) -> Part:
    part = Part(source.name, "", staged)
    reader = None
    with _failures_as_problems(f"{source.name}: recognising its format", staged):
        reader = reader_of(source)
        if reader is None:
            part.is_empty_log = is_empty_log(source)
            _refuse(source, staged)
    if reader is not None:
        part.format = reader.FORMAT.name
        with _failures_as_problems(f"{source.name}: the {reader.FORMAT.name} reader", staged):
            part.value = reader.read(source, staged)
    return part


def format_of(files: Iterable[tuple[str, str]]) -> str:
    """The one format of files given as (name, format); empty where no file has any.

    A format that accompanies others gives way to all of them, a generic one to a specific one.
    Raises UserError for two specific ones.
    """
    firsts: dict[str, str] = {}
    """format -> first file of it"""
    for name, format_name in files:
        if format_name:
            firsts.setdefault(format_name, name)
    if len(firsts) < 2:  # as nearly always: no reader has to be imported for its facts
        return next(iter(firsts), "")
    traces = [name for name in firsts if not format_facts(name).accompanies] or list(firsts)
    chosen, *others = [name for name in traces if not format_facts(name).is_generic] or traces
    if others and not format_facts(chosen).is_generic:
        other = others[0]
        raise UserError(
            f"{firsts[other]} is a {other} file among {chosen} files; import each format by itself"
        )
    return chosen


class _Reading:
    """What the files of one format come to."""

    def __init__(self, format_name: str, sink: Sink) -> None:
        self._sink = sink
        self._reader = reader_named(format_name) if format_name else None
        self._import = None if self._reader is None else self._reader.Import(sink)

    def take(self, part: Part) -> None:
        """One file, which it costs where the reader fails on it."""
        part.staged.give_to(self._sink)
        if self._import is not None and part.value is not None:
            with self._failures_as_problems(part.name):
                self._import.add_file(part.value)

    def finish(self) -> None:
        """All files were taken."""
        if self._import is not None:
            with self._failures_as_problems("what was read"):
                self._import.finish()

    def _failures_as_problems(self, what: str) -> AbstractContextManager[None]:
        assert self._reader is not None
        return _failures_as_problems(f"{what}: the {self._reader.FORMAT.name} reader", self._sink)


def put_together(parts: Iterable[Part], format_name: str, run: RunWriter) -> None:
    """Give the run what was found in the files, in their order.

    A reader that fails on a file costs that file, never the others. Where `format_name` is another,
    files of a format that accompanies it are added, those of a generic one left out. Raises
    UserError.
    """
    own = _Reading(format_name, run)
    others: dict[str, tuple[_Reading, AccompanyingSink]] = {}
    for part in parts:
        facts = format_facts(part.format)
        if part.is_empty_log and format_name:
            continue
        if part.format in ("", format_name) or not (facts.is_generic or facts.accompanies):
            own.take(part)
        elif facts.accompanies:
            if part.format not in others:
                sink = AccompanyingSink(run, facts.title)
                others[part.format] = _Reading(part.format, sink), sink
            others[part.format][0].take(part)
        else:
            part.staged.drop()
            among = f"{part.format} file among {format_name} files"
            run.add_problem(f"{part.name} is a {among}{LEFT_OUT}")
    own.finish()
    for reading, sink in others.values():
        reading.finish()
        sink.finish()


def put_alone(part: Part, sink: Sink) -> None:
    """Give a sink what one file shows by itself, for a look before all are put together."""
    reader = reader_named(part.format)
    with _failures_as_problems(f"{part.name}: the {reader.FORMAT.name} reader", sink):
        reader.Import(sink).add_file(part.value)


@contextmanager
def _failures_as_problems(what: str, sink: Sink) -> Iterator[None]:
    """Turn whatever a reader raises, but a UserError, into a problem of the run.

    Bytes of strangers meet parsers here (JSON, Parquet, SQLite, archives): what those raise on
    damage cannot be listed, so this is the one boundary that catches everything.
    """
    try:
        yield
    except UserError:
        raise
    except MemoryError:
        bound = f"{limits().max_reader_mib:,} MiB of memory"
        sink.add_problem(f"{what} needed more than {bound}; raise {variable('max_reader_mib')}")
    except Exception as error:
        if isinstance(error, OSError) and is_full(error):
            raise disk_error("the import", error) from error
        _LOG.debug("%s failed", what, exc_info=error)
        message = printable(" ".join(str(error).split()))[:_LONGEST_REASON]
        reason = f"{type(error).__name__}: {message}" if message else type(error).__name__
        sink.add_problem(f"{what} failed on it ({reason})")


def _refuse(source: Source, sink: Sink) -> None:
    damages = "; ".join(source.damages())
    if damages and not source.head:
        sink.add_problem(f"{source.name}: {damages}")
    else:
        about = f" ({damages})" if damages else ""
        sink.add_problem(f"{source.name} is {what_it_is(source)}{about}{LEFT_OUT}")
