"""Files of other tools as run folders: the same tables, with provenance, guesses and problems.

An import is written into a hidden folder next to the run's and renamed at the end, so that an
interrupted one leaves nothing. The id of the run ends in a hash of the content: the same content
is imported once. Files are read by processes of their own (ingest.imports.pool); what they have
read can be looked at meanwhile (ingest.imports.preview).
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import UserError, disk_error, printable
from ingest.imports.parts import LEFT_OUT, format_of, parts_of, put_together
from ingest.imports.pool import Pool
from ingest.imports.preview import FOUND, UNFINISHED, ImportProgress, Showing, remove
from ingest.imports.time_zero import Starts, start_of
from ingest.imports.worker_command import reads_here
from ingest.index.snapshots import OwnerLock
from ingest.readers import FORMATS, format_facts
from ingest.readers.parsing.sources import cut_to_limit, files_of
from ingest.run_folder import native
from ingest.run_folder.content_hash import content_hash, digests_of
from ingest.run_folder.run_files import existing, is_run_folder
from ingest.run_folder.run_writer import RunWriter

if TYPE_CHECKING:
    from ingest.run import Run

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) as they lie on disk; it may raise to end the import."""

OnFile = Callable[[str], None]
"""Called with the name of the file that is read now."""

OnShown = Callable[[str], None]
"""Called with the name of the run once what was read of it so far can be looked at."""

Finish = Callable[[RunWriter, str], None]
"""Called with what was read and the format's name before the run is published."""

_DIGITS_SHOWN = 16
_RUN = "run"
"""Folder in the unfinished one: what becomes the run."""
_SHOWN_FROM_BYTES = 4 << 20
"""Smaller imports are over before anybody could look."""
_BEFORE_LOCKED_S = 60.0
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_ENDINGS = re.compile(r"(\.(tar|tgz|gz|zip|jsonl?|parquet|pt|trace|sqlite|rpd|log|timeline))+$")


def import_paths(
    paths: Sequence[Path | str],
    runs_folder: Path | str,
    progress: Progress | None = None,
    name: str | None = None,
    finish: Finish | None = None,
    on_file: OnFile | None = None,
    on_shown: OnShown | None = None,
) -> Path:
    """Import trace files and folders of them as one run; returns the run's folder.

    What was imported before is not read again. One damaged file of many becomes a problem of the
    run. `finish` may add to what was read, such as the ranks' clocks (app.analysis.imports). What
    `progress` raises ends the import within a tenth of a second. Raises UserError where nothing
    can be read or written, DiskFull where there is no room to.
    """
    given = [existing(path) for path in paths]
    runs = Path(runs_folder)
    for path in given:
        if is_run_folder(path):
            raise UserError(
                f"{path} is a run folder already and needs no import; open it with: rankscope "
                f"serve {path}"
            )
    own = _Import(given, progress, on_file, on_shown)
    digest = content_hash(own.digests())
    same = sorted(path.parent for path in runs.glob(f"*-{digest}/run.json"))
    done = next(filter(is_run_folder, same), None)
    if done is not None:
        return done
    run = f"{_plain(name or given[0].resolve().name)}-{digest}"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        _remove_killed(runs)
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=runs))
        (unfinished / FOUND).mkdir()
    except OSError as error:
        raise disk_error(str(runs), error) from None
    with OwnerLock(unfinished / FOUND) as lock:
        lock.acquire()
        try:
            own.write(unfinished, run, finish)
            return _moved(unfinished / _RUN, runs / run)
        except OSError as error:
            raise disk_error(str(runs), error) from error
        finally:
            remove(unfinished)


def open_any(
    path: Path | str,
    progress: Progress | None = None,
    finish: Finish | None = None,
    on_file: OnFile | None = None,
) -> Run:
    """A run from anything readable: a run folder as it lies, other files imported for now.

    What is imported is removed with the Run, at the latest when the process ends. Raises UserError.
    """
    from ingest.run import open_run

    where = existing(path)
    runs = native.runs_at(where)
    if len(runs) > 1:
        names = ", ".join(run.name for run in runs[:5]) + (", ..." if len(runs) > 5 else "")
        raise UserError(f"{where} holds {len(runs)} runs; name one of them: {names}")
    if runs:
        return open_run(runs[0])
    with ExitStack() as kept:
        folder = tempfile.TemporaryDirectory(prefix="rankscope-", ignore_cleanup_errors=True)
        into = Path(kept.enter_context(folder))
        run = open_run(import_paths([where], into, progress, finish=finish, on_file=on_file))
        weakref.finalize(run, kept.pop_all().close)
    return run


class _Import:
    """One import in progress."""

    def __init__(
        self,
        given: list[Path],
        progress: Progress | None,
        on_file: OnFile | None,
        on_shown: OnShown | None,
    ) -> None:
        self._given = given
        self._files = files_of(given)
        self._sizes = [path.stat().st_size for path in self._files]
        self._progress = progress
        self._on_file = on_file
        self._on_shown = on_shown
        self._showing: Showing | None = None
        self._t0_ns: int | None = None
        self._digests: list[bytes] = []
        self._done = 0

    def digests(self) -> list[bytes]:
        """Of what each file holds; raises UserError for one that cannot be read."""
        self._digests = digests_of(self._files, lambda: self._watch(0, ""))
        return self._digests

    def write(self, unfinished: Path, run: str, finish: Finish | None) -> None:
        """Read all files and write the run; raises UserError."""
        folder = unfinished / _RUN
        folder.mkdir()
        if sum(self._sizes) >= _SHOWN_FROM_BYTES:
            self._showing = Showing(unfinished, run)
        writer, format_name = self._read(unfinished / FOUND, folder)
        if finish is not None:
            finish(writer, format_name)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        provenance = [*self._provenance(), f"imported {stamp}"]
        writer.publish(run, format_name, provenance, self._t0_ns)

    def _read(self, staged: Path, folder: Path) -> tuple[RunWriter, str]:
        """What was read, all but the files that describe it, and the format's name."""
        files = list(self._files)
        beyond = cut_to_limit(files)
        if reads_here():
            writer, format_name = self._read_here(files, staged, folder)
        else:
            with Pool(files, staged, self._watch, self._showing) as pool:
                format_name = pool.read()
                writer = RunWriter(folder, pool.put_together(format_name, folder))
                self._t0_ns = pool.starts.first_ns
        if beyond:
            writer.add_problem(beyond)
        if not writer.ranks:
            raise UserError(_nothing_readable(self._given, writer.found.problems))
        self._watch(sum(self._sizes), "")
        return writer, format_name

    def _read_here(self, files: list[Path], staged: Path, folder: Path) -> tuple[RunWriter, str]:
        def on_bytes(num_bytes: int) -> None:
            self._watch(self._done + num_bytes, "")

        writer = RunWriter(folder)

        def is_mine(_number: int, name: str) -> bool:
            self._watch(self._done, name)
            return True

        parts, starts = [], Starts([path.stat().st_size for path in files])
        for file, path in enumerate(files):
            for number, part in parts_of(path, staged, on_bytes, is_mine):
                parts.append(part)
                starts.note(file, number, start_of(part))
            starts.end(file)
        self._t0_ns = starts.first_ns
        format_name = format_of((part.name, part.format) for part in parts)
        put_together(parts, format_name, writer)
        return writer, format_name

    def _watch(self, done: int, name: str, num_done: int = 0) -> None:
        self._done = done
        if self._showing is not None and self._showing.is_there:
            self._show(ImportProgress(num_done, len(self._files), done, sum(self._sizes)))
        if name and self._on_file is not None:
            self._on_file(name)
        if self._progress is not None:
            self._progress(done, sum(self._sizes))

    def _show(self, progress: ImportProgress) -> None:
        assert self._showing is not None
        self._showing.note(progress)
        if self._on_shown is not None:
            self._on_shown(self._showing.folder.name)
            self._on_shown = None

    def _provenance(self) -> list[str]:
        known = zip(self._files, self._sizes, self._digests, strict=True)
        return [
            printable(f"{path} ({size} bytes, blake2b {digest.hex()[:_DIGITS_SHOWN]})")
            for path, size, digest in known
        ]


def _nothing_readable(given: list[Path], problems: list[str]) -> str:
    titles = ", ".join(format_facts(name).title for name in FORMATS)
    formats = f"rankscope reads run folders and these formats: {titles}"
    first = problems[0] if problems else f"{given[0]} is empty"
    more = f" (and {len(problems) - 1} more like it)" if len(problems) > 1 else ""
    return f"no trace could be read: {first.removesuffix(LEFT_OUT)}{more}; {formats}"


def _remove_killed(runs: Path) -> None:
    """Remove what killed imports left: those whose lock is free."""
    for folder in runs.glob(f"{UNFINISHED}*"):
        with suppress(OSError):  # another import was faster
            is_old = time.time() - folder.stat().st_mtime > _BEFORE_LOCKED_S
            with OwnerLock(folder / FOUND) as lock:
                if is_old and lock.acquire():
                    shutil.rmtree(folder, ignore_errors=True)


def _moved(written: Path, final: Path) -> Path:
    """Rename into place; another import of the same content may have been faster."""
    try:
        written.rename(final)
    except OSError:
        if not (final / "run.json").is_file():
            raise
    return final


def _plain(name: str) -> str:
    """A name fit for a folder, without the endings of trace files."""
    return _NOT_IN_NAMES.sub("-", _ENDINGS.sub("", name)).strip("-.")[:80] or "trace"
