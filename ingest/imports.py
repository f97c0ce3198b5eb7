"""Files of other tools as run folders: the same tables, with provenance, guesses and problems.

An import is written into a hidden folder beside its place and renamed at the end, so that an
interrupted one leaves nothing. The id of the run ends in a hash of the content: the same content
is imported once.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.errors import UserError, printable
from ingest.readers import GENERIC, Reader, Reading, Sink, native, reader_of, readers
from ingest.readers.inputs import Source, files_of, sources
from ingest.readers.limits import limits
from ingest.readers.lookalikes import what_it_is
from ingest.run_files import existing, is_run_folder
from trace_hooks.schema import (
    SCHEMA_VERSION,
    RankInfo,
    RunInfo,
    SegmentName,
    publish_json,
    publish_table,
    rank_file_name,
)

if TYPE_CHECKING:
    from ingest.store import Run

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) as they lie on disk."""

Finish = Callable[["RunWriter", str], None]
"""Called with what was read and the format's name before the run is published."""

HASH_DIGITS = 12
_LOG = logging.getLogger(__name__)
LEFT_OUT = ", left out"
UNKNOWN_RANK = "unknown"
"""Key of events_per_rank for the files whose rank nothing tells, not even their names."""
_LONGEST_REASON = 200
_LONGEST_SENTENCE = 2000
_MOST_SENTENCES = 1000
_HASHED_AT_ONCE = 1 << 22
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_ENDINGS = re.compile(r"(\.(tar|tgz|gz|zip|jsonl?|parquet|pt|trace|sqlite|rpd|log|timeline))+$")


@dataclass
class RunWriter:
    """Where readers put their rows: one run folder in the making."""

    folder: Path
    ranks: dict[int, RankInfo] = field(default_factory=dict)
    guesses: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    events_per_rank: dict[int, int] = field(default_factory=dict)
    clock: str = "absolute"
    num_spans: int = 0
    _numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("segments", "ranks"):
            (self.folder / name).mkdir()

    def add_rows(self, table: str, rank: int, rows: pa.Table) -> None:
        """One segment of these rows."""
        number = self._numbers.get((table, rank), 0)
        self._numbers[table, rank] = number + 1
        name = SegmentName(table, 0, rank, number)
        try:
            publish_table(rows, self.folder / "segments" / str(name))
        except OSError as error:  # a full disk is no fault of the file that is read
            raise UserError(f"{self.folder} cannot be written: {error.strerror}") from error

    def remove_rows(self, table: str) -> None:
        """Take back all rows of a table."""
        for path in (self.folder / "segments").glob(f"{table}-*.parquet"):
            path.unlink()

    def add_rank(self, info: RankInfo) -> None:
        """Keep it until the end; several files of a rank widen its time.

        Raises ValueError for a rank that no job has.
        """
        most = limits().max_ranks
        if not 0 <= info["rank"] < most or info["world_size"] > most:
            told = f"rank {info['rank']} of {info['world_size']}"
            raise ValueError(f"{told} is beyond RANKSCOPE_MAX_RANKS={most}")
        earlier = self.ranks.get(info["rank"])
        if earlier is not None:
            info["started_ns"] = min(info["started_ns"], earlier["started_ns"])
        self.ranks[info["rank"]] = info

    def add_guess(self, text: str) -> None:
        """Something a reader decided."""
        self._tell(self.guesses, text)

    def add_problem(self, text: str) -> None:
        """Something that could not be read."""
        self._tell(self.problems, text)

    def _tell(self, sentences: list[str], text: str) -> None:
        """Keep a sentence: in one line, not endless, and not more of them than anybody reads."""
        if len(sentences) < _MOST_SENTENCES:
            sentences.append(printable(text[:_LONGEST_SENTENCE]))
        elif len(sentences) == _MOST_SENTENCES:
            sentences.append("there are more of these, which are not listed")

    def count_events(self, rank: int, num_events: int) -> None:
        """Elements of one file's list of events; rank -1 where nothing tells it."""
        self.events_per_rank[rank] = self.events_per_rank.get(rank, 0) + num_events

    def set_clock(self, clock: str) -> None:
        """What times mean."""
        self.clock = clock

    def publish(self, run: str, source: str, provenance: list[str]) -> None:
        """Write the files that describe the run; it is complete after that."""
        if all(info["world_size"] < 0 for info in self.ranks.values()):
            self.add_guess(f"the world size is unknown; ranks read: {len(self.ranks)}")
        started = [info["started_ns"] for info in self.ranks.values()]
        told = [ns for ns in started if ns] or [0]  # 0: the file tells no time of its rank
        for rank, info in self.ranks.items():
            publish_json(info, self.folder / "ranks" / rank_file_name(0, rank))
        run_info = RunInfo(
            schema=SCHEMA_VERSION,
            run=run,
            created_ns=min(told),
            clock=self.clock,
            source=source,
            framework="torch" if source in ("kineto", "flight_recorder") else "",
            versions={},
            provenance=provenance,
            guesses=self.guesses,
            problems=self.problems,
            events_per_rank={
                str(rank) if rank >= 0 else UNKNOWN_RANK: num_events
                for rank, num_events in sorted(self.events_per_rank.items())
            },
        )
        publish_json(run_info, self.folder / "run.json")


def import_paths(
    paths: Sequence[Path | str],
    runs_folder: Path | str,
    progress: Progress | None = None,
    name: str | None = None,
    finish: Finish | None = None,
) -> Path:
    """Import trace files and folders of them as one run; returns the run's folder.

    What was imported before is not read again. One damaged file of many becomes a problem of the
    run. `finish` may add to what was read, such as the ranks' clocks (app.importing). Raises
    UserError where nothing can be read.
    """
    given = [existing(path) for path in paths]
    files = files_of(given)
    runs = Path(runs_folder)
    for path in given:
        if is_run_folder(path):
            raise UserError(f"{path} is a run folder already; open it as it is")
    digest = content_hash(files)
    done = next(iter(sorted(runs.glob(f"*-{digest}/run.json"))), None)
    if done is not None:
        return done.parent
    run = f"{_plain(name or given[0].resolve().name)}-{digest}"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".import-", dir=runs))
    except OSError as error:
        raise UserError(f"{runs} cannot be written ({error.strerror}); name another") from None
    try:
        _write_run(temporary, run, given, files, progress, finish)
        return _moved(temporary, runs / run)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_any(
    path: Path | str, progress: Progress | None = None, finish: Finish | None = None
) -> Run:
    """A run from anything readable: a run folder as it lies, other files imported for now.

    What is imported is removed when the process ends. Raises UserError.
    """
    from ingest.store import open_run

    where = existing(path)
    runs = native.runs_at(where)
    if len(runs) > 1:
        names = ", ".join(run.name for run in runs[:5]) + (", ..." if len(runs) > 5 else "")
        raise UserError(f"{where} holds {len(runs)} runs; name one of them: {names}")
    if runs:
        return open_run(runs[0])
    kept_until_exit = Path(tempfile.mkdtemp(prefix="rankscope-"))
    atexit.register(shutil.rmtree, kept_until_exit, ignore_errors=True)
    return open_run(import_paths([where], kept_until_exit, progress, finish=finish))


def content_hash(files: Sequence[Path]) -> str:
    """Hash of what the files hold, whatever they are called and in whatever order they come.

    Raises UserError for a file that cannot be read.
    """
    digests = []
    for path in files:
        digest = hashlib.blake2b()
        try:
            with path.open("rb") as file:
                while piece := file.read(_HASHED_AT_ONCE):
                    digest.update(piece)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from None
        digests.append(digest.digest())
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()[:HASH_DIGITS]


def _write_run(
    folder: Path,
    run: str,
    given: list[Path],
    files: list[Path],
    progress: Progress | None,
    finish: Finish | None,
) -> None:
    writer = RunWriter(folder)
    total = sum(path.stat().st_size for path in files)
    done = 0

    def on_bytes(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        if progress is not None:
            progress(done, total)

    reader = _read_all(sources(files, on_bytes), writer, _has_own_format(files))
    if reader is None or not writer.ranks:
        raise UserError(_nothing_readable(given, writer.problems))
    if finish is not None:
        finish(writer, reader.NAME)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    provenance = [printable(f"{path} ({path.stat().st_size} bytes)") for path in files]
    writer.publish(run, reader.NAME, [*provenance, f"imported {stamp}"])


def _has_own_format(files: Sequence[Path]) -> bool:
    """Whether any of several files is of a format that says what it is, unlike a Chrome trace.

    Of an archive its first file is looked at.
    """
    if len(files) < 2:
        return False
    for path in files:
        with suppress(Exception):  # reading it will tell
            for source in sources([path], lambda _: None):
                reader = reader_of(source)
                if reader is not None and reader.NAME not in GENERIC:
                    return True
                break
    return False


def _read_all(found: Iterable[Source], sink: Sink, has_own_format: bool) -> Reader | None:
    """Read every file by the reader that knows it; returns the one reader there was.

    A reader that fails on a file costs that file, never the import of the others. A file of a
    generic format is left out where others say more of what they are.
    """
    reader: Reader | None = None
    reading: Reading | None = None
    for source in found:
        own = _reader_of(source, sink)
        if own is None:
            continue
        if own.NAME in GENERIC and (has_own_format or (reader is not None and own is not reader)):
            among = f"{reader.NAME} files" if reader is not None else "files of other formats"
            sink.add_problem(f"{source.name} is a {own.NAME} file among {among}{LEFT_OUT}")
            continue
        if reader is not None and own is not reader:
            raise UserError(
                f"{source.name} is a {own.NAME} file among {reader.NAME} files; "
                "import each format by itself"
            )
        if reading is None:
            reader, reading = own, own.Reading(sink)
        with _failures_told(source.name, own, sink):
            reading.add(source)
    if reader is not None and reading is not None:
        with _failures_told("what was read", reader, sink):
            reading.finish()
    return reader


def _reader_of(source: Source, sink: Sink) -> Reader | None:
    """The reader that knows the file; None, and a problem of the file, where none does."""
    try:
        own = reader_of(source)
    except Exception as error:  # noqa: BLE001  # as in _failures_told
        _tell_failure(f"{source.name} cannot be recognised", error, sink)
        return None
    if own is None:
        _refuse(source, sink)
    return own


@contextmanager
def _failures_told(what: str, reader: Reader, sink: Sink) -> Iterator[None]:
    """Turn whatever a reader raises, but a UserError, into a problem of the run.

    Bytes of strangers meet parsers here (JSON, Parquet, SQLite, archives): what those raise on
    damage cannot be listed, so this is the one boundary that catches everything.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001
        _tell_failure(f"{what}: the {reader.NAME} reader failed on it", error, sink)


def _tell_failure(what: str, error: Exception, sink: Sink) -> None:
    _LOG.debug("%s", what, exc_info=error)
    said = printable(" ".join(str(error).split()))[:_LONGEST_REASON]
    reason = f"{type(error).__name__}: {said}" if said else type(error).__name__
    sink.add_problem(f"{what} ({reason})")


def _refuse(source: Source, sink: Sink) -> None:
    damages = "; ".join(source.damages())
    if damages and not source.head:
        sink.add_problem(f"{source.name}: {damages}")
    else:
        about = f" ({damages})" if damages else ""
        sink.add_problem(f"{source.name} is {what_it_is(source)}{about}{LEFT_OUT}")


def _nothing_readable(given: list[Path], problems: list[str]) -> str:
    formats = f"rankscope reads run folders and {', '.join(r.NAME for r in readers())} traces"
    first = problems[0] if problems else f"{given[0]} is empty"
    more = f" (and {len(problems) - 1} more like it)" if len(problems) > 1 else ""
    return f"no trace could be read: {first.removesuffix(LEFT_OUT)}{more}; {formats}"


def _moved(temporary: Path, final: Path) -> Path:
    """Rename into place; another import of the same content may have been faster."""
    try:
        temporary.chmod(0o755)
        temporary.rename(final)
    except OSError:
        if not (final / "run.json").is_file():
            raise
    return final


def _plain(name: str) -> str:
    """A name fit for a folder, without the endings of trace files."""
    return _NOT_IN_NAMES.sub("-", _ENDINGS.sub("", name)).strip("-.")[:80] or "trace"
