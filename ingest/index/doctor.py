"""Checks every data file of a run against its row in the index, and repairs both.

A file is read whole, not only its footer. The index can always be made again from the data files;
a data file that is damaged or gone cannot, and what it held is named by its row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import UserError, printable
from ingest.index.bundles import bundles_of, examine_bundle, is_unpacked
from ingest.index.index_lock import IndexLock
from ingest.index.indexer import Indexer
from ingest.index.quarantine import Quarantine
from ingest.index.snapshots import DATABASE, discard_published, index_folder
from ingest.query.index_catalog import require_own
from ingest.query.manifest import FileEntry, Manifest, read_entry
from ingest.run_folder.run_paths import (
    DATA,
    UNPACKED,
    listed,
    plain_file,
    read_plain_file,
    require_no_links,
)
from trace_hooks.schema import TABLES, SegmentName
from trace_hooks.schema.bundles import BundleName

BATCH_ROWS = 1 << 16
MOST_RANK_FILE = 1 << 24
"""Bytes of a rank's file that are read."""

DAMAGED, MISSING, CHANGED, NOT_INDEXED = "damaged", "missing", "changed", "not indexed"
OF_THE_INDEX = (CHANGED, NOT_INDEXED)
"""What an index that is made again no longer has."""


@dataclass(frozen=True)
class Trouble:
    """One file that is not as the index has it. `what`: one of the words above; `text`: a sentence
    that says what is lost, if anything is.
    """

    path: str
    what: str
    text: str

    @property
    def is_lost(self) -> bool:
        """Whether rows cannot be had back."""
        return self.what in (DAMAGED, MISSING)


@dataclass(frozen=True)
class Examined:
    """What was read, and what is wrong. `index`: why the index itself cannot be used, or empty."""

    num_files: int
    num_rows: int
    num_bytes: int
    index: str
    troubles: tuple[Trouble, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.index and not self.troubles


Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all)."""


def examine(run_folder: Path, progress: Progress) -> Examined:
    """Read everything; changes nothing. Raises UserError where another process indexes the run."""
    with _Alone(run_folder):
        return _examined(run_folder, progress)


def repair(run_folder: Path, found: Examined) -> Path | None:
    """Set damaged data files aside, make the index again from the others; returns the folder of
    what was set aside. Raises UserError where another process indexes the run.
    """
    aside = False
    with _Alone(run_folder) as folder:
        quarantine = Quarantine(run_folder)
        for trouble in found.troubles:
            path = run_folder / trouble.path
            if trouble.what == DAMAGED and path.parent.name in DATA and path.is_file():
                aside = True
                if BundleName.parse(path.name) is None:  # the indexer unpacks what is sound first
                    quarantine.keep(path, trouble.text)
        discard_published(folder)
        for name in (DATABASE, f"{DATABASE}.wal"):
            (folder / name).unlink(missing_ok=True)
    with Indexer(run_folder) as indexer:
        indexer.refresh(merge=False)
    return run_folder / "quarantine" if aside else None


class _Alone:
    """The right to write a run's index, and its folder."""

    def __init__(self, run_folder: Path) -> None:
        require_no_links(run_folder)
        self._run_folder, self._folder = run_folder, index_folder(run_folder)
        self._lock = IndexLock(self._folder)

    def __enter__(self) -> Path:
        if not self._lock.acquire():
            raise UserError(
                f"another process is indexing {self._run_folder}; stop the server or `rankscope "
                "index` first"
            )
        return self._folder

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def _examined(run_folder: Path, progress: Progress) -> Examined:
    index_at = index_folder(run_folder)
    known, retired, index = _index_of(index_at / DATABASE)
    there = {
        f"{name}/{file.name}": file.stat(follow_symlinks=False).st_size
        for folder, names in ((run_folder, DATA), (index_at, (UNPACKED,)))
        for name in names
        for file in listed(folder / name, ".parquet")
    }
    troubles = [*_of_rank_files(run_folder), *_of_bundles(run_folder)]
    num_rows = done = 0
    total = sum(there.values())
    for path in sorted(there):
        progress(done, total)
        folder = index_at if path.startswith(f"{UNPACKED}/") else run_folder
        rows, trouble = _of_file(folder, path, known.get(path), path in retired, bool(index))
        num_rows += rows
        done += there[path]
        troubles += [trouble] if trouble else []
    troubles += [
        Trouble(path, MISSING, f"{path} is gone: {_held(entry)}")
        for path, entry in sorted(known.items())
        if path not in there
    ]
    return Examined(len(there), num_rows, total, index, tuple(troubles))


def _index_of(database: Path) -> tuple[dict[str, FileEntry], set[str], str]:
    """(usable files by path, files that were merged or set aside, why the index cannot be used)."""
    if not database.exists():
        return {}, set(), "the run is not indexed"
    try:
        with duckdb.connect(str(database), read_only=True) as connection:
            require_own(connection, database.stem)
            manifest = Manifest(connection)
            entries = {entry.path: entry for entry in manifest.entries()}
            return entries, manifest.known_paths() - set(entries), ""
    except duckdb.Error as error:
        reason = printable(str(error).partition("\n")[0])[:200]
        return {}, set(), f"the index is damaged: {reason}"


def _of_file(
    run_folder: Path, path: str, known: FileEntry | None, is_retired: bool, has_no_index: bool
) -> tuple[int, Trouble | None]:
    """Rows of one file, and what is wrong with it."""
    entry, _ = read_entry(run_folder, path)
    problem = (entry.problem or "").replace(" was set aside: ", " cannot be used: ", 1)
    problem = problem or _damage(run_folder / path, entry)
    if problem and is_retired:  # set aside before, or merged: nothing reads it
        return 0, None
    if problem:
        return 0, Trouble(path, DAMAGED, f"{problem.rstrip('.')}; {_held(known or entry)}")
    if is_retired or has_no_index:
        return entry.num_rows, None
    if known is None:
        return entry.num_rows, Trouble(path, NOT_INDEXED, f"{path} is not in the index")
    if (entry.num_rows, entry.num_bytes) != (known.num_rows, known.num_bytes):
        text = (
            f"{path} has {entry.num_rows:,} rows and {entry.num_bytes:,} bytes, and the index has "
            f"{known.num_rows:,} and {known.num_bytes:,}"
        )
        return entry.num_rows, Trouble(path, CHANGED, text)
    return entry.num_rows, None


def _damage(path: Path, entry: FileEntry) -> str:
    """What is wrong with the data behind a footer that can be read; empty: nothing."""
    num_rows = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                num_rows += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return printable(f"{path.name} cannot be read: {' '.join(str(error).split())[:200]}")
    if num_rows != entry.num_rows:
        return f"{path.name} has {num_rows:,} rows, and its footer says {entry.num_rows:,}"
    return ""


def _held(entry: FileEntry) -> str:
    """What is lost with a file, as far as its row or its name says."""
    known = SegmentName.parse(Path(entry.path).name)
    table = entry.table_name if entry.table_name in TABLES else "a table"
    ranks = f"rank {entry.rank_min}"
    if entry.rank_max > entry.rank_min:
        ranks = f"ranks {entry.rank_min} to {entry.rank_max}"
    if entry.num_rows:
        steps = f"steps {entry.step_min} to {entry.step_max}"
        rows = f"{entry.num_rows:,} rows of {table}"
        return f"{rows}, attempt {entry.attempt}, {ranks}, {steps} are lost"
    if known is not None:
        return f"rows of {table}, attempt {known.attempt}, rank {known.rank} are lost"
    return f"what it held of {table} is lost"


def _of_bundles(run_folder: Path) -> Iterator[Trouble]:
    """Bundles, which the indexer unpacks and removes."""
    for bundle in bundles_of(run_folder):
        path = f"segments/{bundle.name}"
        problem = examine_bundle(bundle)
        if is_unpacked(bundle, index_folder(run_folder) / UNPACKED):
            continue
        if problem:
            yield Trouble(path, DAMAGED, f"{problem}; what cannot be unpacked of it is lost")
        else:
            yield Trouble(path, NOT_INDEXED, f"{path} is not unpacked, so it is not in the index")


def _of_rank_files(run_folder: Path) -> Iterator[Trouble]:
    for file in listed(run_folder / "ranks", ".json"):
        path = f"ranks/{file.name}"
        try:
            plain_file(Path(file.path))
            if not isinstance(json.loads(read_plain_file(Path(file.path), MOST_RANK_FILE)), dict):
                raise ValueError("it holds no object")
        except (OSError, ValueError, RecursionError) as error:
            text = f"{path} cannot be read: {error}; what the rank said of itself is lost"
            yield Trouble(printable(path), DAMAGED, printable(" ".join(text.split())))
