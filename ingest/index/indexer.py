"""Keeps a run's index up to date: manifest, rollups, merged files. One owner per run folder."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import UserError
from ingest.index.bundles import store_problems, unpack_bundles, unpack_into, unpacked_path
from ingest.index.clocks import store_clocks
from ingest.index.compaction import Compaction
from ingest.index.corrected_axes import CorrectedAxes
from ingest.index.engine import Engine, EngineFailure
from ingest.index.index_database import IndexDatabase
from ingest.index.index_lock import IndexLock
from ingest.index.quarantine import Quarantine
from ingest.index.rank_rows import store_arrivals, store_ranks
from ingest.index.removal import Removal
from ingest.index.retention import KEEP_ALL, Keep, retire_old_content
from ingest.index.rollup_pass import TOUCHING, touched_steps
from ingest.index.snapshots import (
    current_snapshot,
    index_folder,
    look,
    publish_snapshot,
    published_state,
    remember_look,
    remove_leftovers,
)
from ingest.index.summed_steps import apply_sums
from ingest.query.index_sql import index_sql
from ingest.query.manifest import FileEntry, read_entry
from ingest.run_folder.rank_files import RankFiles, rank_file_stamps
from ingest.run_folder.run_files import read_run_info
from ingest.run_folder.run_paths import DATA, UNPACKED, listed, require_no_links

RELATIVE_CLOCK = "per_step_relative"
FOLLOW_S = 0.25
"""Pause between two looks at the folder while following a run."""
RECONNECT_EVERY = 8
"""Passes after which the database is opened again: DuckDB would grow by megabytes a minute."""

_OF_THE_DISK = (duckdb.IOException, duckdb.FatalException, duckdb.TransactionException)
"""What DuckDB raises where a disk is full or a right is missing; the last where it commits."""


class Busy(Exception):
    """Another process owns the index of this run."""


@dataclass(frozen=True)
class PassResult:
    """What one refresh did."""

    new_files: int
    problems: int
    merged_files: int
    published: bool
    took_in_s: float = 0.0
    """How long it took until all new files were in the index, before merging."""


class Indexer:
    """Owner of one run's index; a context manager. Raises Busy when another process has it. Content
    that `keep` does not let stay is deleted, where the run folder is ours to rewrite.

    >>> with Indexer(folder) as indexer:    # doctest: +SKIP
    ...     indexer.refresh()
    """

    def __init__(
        self, run_folder: Path, keep: Keep = KEEP_ALL, engine: Engine | None = None
    ) -> None:
        require_no_links(run_folder)
        self.folder = run_folder
        self._keep = keep
        self._engine = engine or Engine()
        self.relative = read_run_info(run_folder)["clock"] == RELATIVE_CLOCK
        self.index_folder = index_folder(run_folder)
        self._lock = IndexLock(self.index_folder)
        if not self._lock.acquire():
            raise Busy(f"another process is indexing {run_folder}")
        try:
            remove_leftovers(self.index_folder)
            if self.may_merge:
                remove_leftovers(self.folder / "compacted")
            self._rank_files = RankFiles(run_folder)
            self.database = IndexDatabase(run_folder, self.index_folder, self._require_owner)
        except BaseException:
            self._lock.release()
            raise
        self.compaction = Compaction(self.database, self._engine)
        self._removal = Removal(self.compaction, self._update_rollups)
        self._axes = CorrectedAxes(self.database, self._rank_files)
        self._num_passes = 0
        self._rank_stamps: dict[str, tuple[int, int, int]] = {}
        self._quarantine = Quarantine(run_folder)
        self._first_pass = True

    @property
    def may_merge(self) -> bool:
        """Whether the run folder is ours to rewrite; an index in the cache only reads it."""
        return self.index_folder.parent == self.folder

    def _require_owner(self) -> None:
        if not self._lock.is_ours:
            raise Busy(f"a process of another host is indexing {self.folder}")

    def _reopen_at_times(self) -> None:
        is_due = self._num_passes % RECONNECT_EVERY == RECONNECT_EVERY - 1
        if is_due and self.database.reopen():
            self._forget_what_is_stored()
        self._num_passes += 1  # where it cannot be opened the next pass tries again

    def _forget_what_is_stored(self) -> None:
        self._rank_stamps = {}
        self._quarantine = Quarantine(self.folder)
        self._first_pass = True

    def close(self) -> None:
        """Close the database and let others have the run."""
        self.database.close()
        self._lock.release()

    def __enter__(self) -> Indexer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def follow(self, stop: Event, pause_s: float = FOLLOW_S) -> None:
        """Refresh until `stop` is set; new segments are seen within about twice the pause."""
        while not stop.is_set():
            begun = time.monotonic()
            self.refresh()
            # a pass never takes more than half of the time of the thread it runs on
            stop.wait(max(pause_s, time.monotonic() - begun))

    def refresh(self, merge: bool = True, merge_s: float = math.inf) -> PassResult:
        """One pass: new files into manifest and rollups, merge what is due (for about merge_s),
        publish.

        Raises UserError where a disk is full or a right is missing; another pass can then follow.
        """
        try:
            return self._refresh(merge, merge_s)
        except (OSError, *_OF_THE_DISK) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> UserError:
        remedy = "check the disk's free space and the folder's permissions"
        if isinstance(error, EngineFailure):
            remedy = "see the cluster's logs, or index without it"
        return UserError(
            f"the index of {self.folder} cannot be brought up to date: {error}; {remedy}"
        )

    def _refresh(self, merge: bool, merge_s: float) -> PassResult:
        begun_s = time.monotonic()
        self._reopen_at_times()
        self._require_owner()
        require_no_links(self.folder)
        seen = look(self.folder)
        if self.may_merge:
            unpack_bundles(self.folder, self.database.known_paths, self._quarantine)
        else:
            store_problems(self.database, unpack_into(self.index_folder / UNPACKED, self.folder))
        self._quarantine.store_problems(self.database)
        entries, replaced = self._new_entries()
        ranks_changed = self._ranks_changed() or not self._axes.is_current()
        are_steps_removed = self._removal.is_news()
        if entries or ranks_changed or are_steps_removed:
            try:
                self._take_in(entries, replaced, ranks_changed)
            except BaseException:  # nothing was taken: the next pass must see all of it again
                self.database.known_paths -= {entry.path for entry in entries}
                self._rank_stamps = {}
                raise
        took_in_s = time.monotonic() - begun_s
        merged, failure = self._rewrite(merge_s) if merge and self.may_merge else (0, None)
        if self.may_merge:
            retire_old_content(self.database, self._keep)
        fresh = self._publish()
        if failure is None:  # else followers of a run at rest must try again
            remember_look(self.index_folder, seen)
        if self.may_merge:
            self.database.known_paths -= set(self.compaction.delete_retired())
        self._first_pass = False
        if failure is not None:
            raise failure
        problems = sum(entry.problem is not None for entry in entries)
        return PassResult(len(entries), problems, merged, fresh, took_in_s)

    def _rewrite(self, limit_s: float) -> tuple[int, Exception | None]:
        """Merge and trim files: how many are gone, and the error where a disk is full. It is raised
        after the pass has deleted old files: only that makes room.
        """
        merged, failure = 0, None
        for work in (self.compaction.merge_due, self._removal.trim):
            try:
                merged += work(limit_s)
            except (OSError, *_OF_THE_DISK) as error:
                failure = error
        return merged, failure

    def _publish(self) -> bool:
        """Publish the index where it is another than readers have; whether it was."""
        self._require_owner()
        state = self.database.state
        fresh = state != published_state(self.index_folder)
        if fresh:
            self.database.connection.execute("CHECKPOINT")
            publish_snapshot(self.index_folder, self.database.path, state)
        return fresh

    def _new_entries(self) -> tuple[list[FileEntry], list[str]]:
        entries: list[FileEntry] = []
        replaced: list[str] = []
        for path in sorted(self._listing() - self.database.known_paths):
            folder = self.index_folder if path.startswith(f"{UNPACKED}/") else self.folder
            entry, inputs = read_entry(folder, path, tier=int(path.startswith("compacted/")))
            is_gone = bool(entry.problem) and not os.path.lexists(folder / path)
            if is_gone or entry.path in self.database.known_paths:
                continue
            entries.append(entry)
            replaced += [same for path in inputs for same in (path, unpacked_path(path))]
            self.database.known_paths |= {path, entry.path}
        return entries, replaced

    def _listing(self) -> set[str]:
        found = {
            f"{name}/{file.name}"
            for name in DATA
            for file in listed(self.folder / name, ".parquet")
        }
        if not self.may_merge:
            unpacked = listed(self.index_folder / UNPACKED, ".parquet")
            own = {unpacked_path(file.name) for file in unpacked}
            found = own | {path for path in found if unpacked_path(path) not in own}
        return found

    def _ranks_changed(self) -> bool:
        seen = rank_file_stamps(self.folder)
        changed = seen != self._rank_stamps
        self._rank_stamps = seen
        return changed and not (self._first_pass and self._have_ranks(seen))

    def _have_ranks(self, seen: dict[str, tuple[int, int, int]]) -> bool:
        """Whether the snapshot published last knows these rank files already."""
        snapshot = current_snapshot(self.index_folder)
        counted = (
            "SELECT (SELECT count(*) FROM ranks)"
            " + (SELECT count(*) FROM problems WHERE source = 'ranks')"
        )
        known = self.database.connection.execute(counted).fetchall()[0][0]
        if snapshot is None or known != len(seen):
            return False
        newest_ns = max((stamp[0] for stamp in seen.values()), default=0)
        with suppress(OSError):  # a file may also come with an older time, as copies do
            newest_ns = max(newest_ns, (self.folder / "ranks").stat().st_mtime_ns)
        return newest_ns < snapshot.stat().st_mtime_ns

    def _take_in(self, entries: list[FileEntry], replaced: list[str], ranks_changed: bool) -> None:
        """Bring everything derived up to date in one transaction; damaged data is set aside."""
        while True:
            try:
                with self.database.transaction():
                    self._derive(entries, replaced, ranks_changed)
                return
            except EngineFailure as error:
                raise self._failure(error) from error
            except (duckdb.Error, OSError) as error:
                sound = [self._verified(entry) for entry in entries]
                if sound == entries:
                    raise self._failure(error) from error
                entries = sound

    def _verified(self, entry: FileEntry) -> FileEntry:
        """The entry, or one that is set aside because its pages cannot be read."""
        if entry.problem:
            return entry
        try:
            pq.read_table(self.database.file(entry.path))
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:400]
            return replace(entry, problem=f"{entry.path} was set aside: {reason}")
        return entry

    def _derive(self, entries: list[FileEntry], replaced: list[str], ranks_changed: bool) -> None:
        now_ns, are_steps_removed = time.time_ns(), self._removal.store()
        connection, manifest = self.database.connection, self.database.manifest
        skip = set(replaced)
        manifest.add([entry for entry in entries if entry.path not in skip])
        manifest.retire(replaced, now_ns)
        if ranks_changed:
            store_ranks(connection, *self._rank_files.read())
        store_arrivals(connection, entries, now_ns, self.database.file, self._first_pass)
        usable = [e for e in entries if not e.problem and e.num_rows and e.path not in skip]
        self._store_rows("steps", "step_rows", usable)
        self._store_rows("step_sums", "summed_steps", usable)
        self._store_rows("kind_sums", "summed_kinds", usable)
        self._store_evaluations(usable)
        axes = self._axes.before()
        self._store_rows("groups", "group_members", usable)
        touched = touched_steps(connection, usable, self.relative)
        for attempt in self._axes.update(axes):
            touched[attempt] = self._all_steps(attempt)
        clocks = self._files(usable, "clocks")
        if ranks_changed or clocks:
            for attempt in store_clocks(connection, clocks):
                touched[attempt] = self._all_steps(attempt)
        self._removal.forget()
        self._update_rollups(touched)
        self._removal.forget()
        if are_steps_removed:
            self._removal.update_following()

    def _update_rollups(self, touched: dict[int, tuple[int, int]]) -> None:
        self._engine.update_rollups(
            self.database.connection, self.folder, self.index_folder, self.relative, touched
        )
        apply_sums(self.database.connection, touched)

    def _files(self, entries: list[FileEntry], table: str) -> list[str]:
        return self.database.absolute(e.path for e in entries if e.table_name == table)

    def _store_rows(self, table: str, statement: str, entries: list[FileEntry]) -> None:
        files = self._files(entries, table)
        if files:
            self.database.connection.execute(index_sql(statement), {table: files})

    def _store_evaluations(self, entries: list[FileEntry]) -> None:
        files, execute = self._files(entries, "spans"), self.database.connection.execute
        if files and execute(index_sql("evaluations"), {"spans": files}).fetchall() != [(0,)]:
            execute(index_sql("nested_evaluations"))

    def _all_steps(self, attempt: int) -> tuple[int, int]:
        row = self.database.connection.execute(
            "SELECT min(step_min), max(step_max) FROM files"
            " WHERE attempt = ? AND problem IS NULL AND num_rows > 0"
            " AND list_contains(?, table_name)",
            [attempt, list(TOUCHING)],
        ).fetchall()[0]
        return (row[0], row[1]) if row[0] is not None else (0, -1)
