"""Keeps a run's index up to date: manifest, rollups, merged files. One owner per run folder."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import UserError
from ingest.index.compaction import Compaction
from ingest.index.corrected_axes import CorrectedAxes
from ingest.index.quarantine import Quarantine
from ingest.index.retention import KEEP_ALL, Keep, let_go
from ingest.index.rollup_pass import TOUCHING, RollupPass, touched_steps
from ingest.index.snapshots import (
    DATABASE,
    OwnerLock,
    current_snapshot,
    index_folder,
    look,
    publish_snapshot,
    published_state,
    remember_look,
    remove_leftovers,
)
from ingest.query.connection import Config
from ingest.query.index_catalog import SETUP, require_own
from ingest.query.index_sql import index_sql
from ingest.query.manifest import FileEntry, Manifest, read_entry
from ingest.query.transactions import transaction
from ingest.run_folder.rank_files import RankFiles, rank_file_stamps
from ingest.run_folder.run_files import read_run_info
from ingest.run_folder.run_paths import DATA, listed, require_no_links
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import RankInfo

RELATIVE_CLOCK = "per_step_relative"
FOLLOW_S = 0.25
"""Pause between two looks at the folder while following a run."""
RECONNECT_EVERY = 8
"""Passes after which the database is opened anew."""

MEMORY = "512MB"
"""What DuckDB may hold of a pass before it puts some of it on disk, beside the index."""

_OF_THE_DISK = (duckdb.IOException, duckdb.FatalException, duckdb.TransactionException)
"""What DuckDB raises where a disk is full or a right is missing; the last where it commits."""
_COORDS = ("pp", "dp", "cp", "tp", "ep")


class Busy(Exception):
    """Another process owns the index of this run."""


@dataclass(frozen=True)
class PassResult:
    """What one refresh did."""

    new_files: int
    problems: int
    merged_files: int
    published: bool


class Indexer:
    """Owner of one run's index; a context manager. Raises Busy when another process has it. Content
    that `keep` does not let stay is deleted, where the run folder is ours to rewrite.

    >>> with Indexer(folder) as indexer:    # doctest: +SKIP
    ...     indexer.refresh()
    """

    def __init__(self, run_folder: Path, keep: Keep = KEEP_ALL) -> None:
        require_no_links(run_folder)
        self.folder = run_folder
        self._keep = keep
        self.relative = read_run_info(run_folder)["clock"] == RELATIVE_CLOCK
        self.index_folder = index_folder(run_folder)
        self._lock = OwnerLock(self.index_folder)
        if not self._lock.acquire():
            raise Busy(f"another process is indexing {run_folder}")
        try:
            remove_leftovers(self.index_folder)
            if self.may_merge:
                remove_leftovers(self.folder / "compacted")
            self._rank_files = RankFiles(run_folder)
            self._connect()
        except BaseException:
            self._lock.release()
            raise
        self.compaction = Compaction(self)
        self._known = self.manifest.known_paths()
        self._num_passes = 0
        self._rank_stamps: dict[str, tuple[int, int, int]] = {}
        self._quarantine = Quarantine(run_folder)
        self._first_pass = True

    @property
    def may_merge(self) -> bool:
        """Whether the run folder is ours to rewrite; an index in the cache only reads it."""
        return self.index_folder.parent == self.folder

    def remember(self, path: str) -> None:
        """Do not take a file for a new one: the manifest has it."""
        self._known.add(path)

    def _connect(self) -> None:
        self.connection = self._open_database()
        self.manifest = Manifest(self.connection)
        self._axes = CorrectedAxes(self.connection, self.folder, self._rank_files)

    def _reconnect_at_times(self) -> None:
        """DuckDB keeps some kB of every query as long as a database is open: megabytes a minute."""
        self._num_passes += 1
        if self._num_passes % RECONNECT_EVERY == 0:
            self.connection.close()
            self._connect()

    def _open_database(self) -> duckdb.DuckDBPyConnection:
        path = self.index_folder / DATABASE
        config: Config = {
            "default_block_size": "16384",  # many small tables: a tenth of the default's file
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "memory_limit": MEMORY,
        }
        try:
            connection = self._open_own(path, config)
        except duckdb.Error:  # damaged: everything in it can be made again from the files
            path.unlink(missing_ok=True)
            path.with_name(path.name + ".wal").unlink(missing_ok=True)
            try:
                connection = duckdb.connect(str(path), config=config)
                connection.execute(SETUP)
            except duckdb.Error as error:
                raise UserError(f"the index {path} cannot be written: {error}") from error
        return connection

    @staticmethod
    def _open_own(path: Path, config: Config) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(str(path), config=config)
        try:
            require_own(connection, path.stem)
            connection.execute(SETUP)
        except duckdb.Error:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the database and let others have the run."""
        self.connection.close()
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
        return UserError(
            f"the index of {self.folder} cannot be brought up to date: {error}; check "
            "the disk's free space and the folder's rights"
        )

    def _refresh(self, merge: bool, merge_s: float) -> PassResult:
        self._reconnect_at_times()
        require_no_links(self.folder)
        seen = look(self.folder)
        self._quarantine.store(self.connection, self.advance)
        entries, replaced = self._new_entries()
        ranks_changed = self._ranks_changed() or not self._axes.is_current()
        if entries or ranks_changed:
            try:
                self._take_in(entries, replaced, ranks_changed)
            except BaseException:  # nothing was taken: the next pass must see all of it again
                self._known -= {entry.path for entry in entries}
                self._rank_stamps = {}
                raise
        merged = self.compaction.merge_due(merge_s) if merge and self.may_merge else 0
        if self.may_merge:
            let_go(self, self._keep)
        state = self._state()
        fresh = state != published_state(self.index_folder)
        if fresh:
            self.connection.execute("CHECKPOINT")
            publish_snapshot(self.index_folder, self.index_folder / DATABASE, state)
        remember_look(self.index_folder, seen)
        if self.may_merge:
            self._known -= set(self.compaction.delete_retired())
        self._first_pass = False
        problems = sum(entry.problem is not None for entry in entries)
        return PassResult(len(entries), problems, merged, fresh)

    def advance(self) -> None:
        """Say that this transaction changes what readers should see."""
        self.connection.execute("UPDATE generation SET number = number + 1")

    def _state(self) -> str:
        rows = self.connection.execute("SELECT identity, number FROM generation").fetchall()
        return f"{rows[0][0]}:{rows[0][1]}"

    def _new_entries(self) -> tuple[list[FileEntry], list[str]]:
        entries: list[FileEntry] = []
        replaced: list[str] = []
        for path in sorted(self._listing() - self._known):
            entry, inputs = read_entry(self.folder, path, tier=int(path.startswith("compacted/")))
            is_gone = bool(entry.problem) and not os.path.lexists(self.folder / path)
            if is_gone or entry.path in self._known:
                continue
            entries.append(entry)
            replaced += inputs
            self._known |= {path, entry.path}
        return entries, replaced

    def _listing(self) -> set[str]:
        return {
            f"{name}/{file.name}"
            for name in DATA
            for file in listed(self.folder / name, ".parquet")
        }

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
        known = self.connection.execute(counted).fetchall()[0][0]
        if snapshot is None or known != len(seen):
            return False
        newest_ns = max((stamp[0] for stamp in seen.values()), default=0)
        return newest_ns < snapshot.stat().st_mtime_ns

    def _take_in(self, entries: list[FileEntry], replaced: list[str], ranks_changed: bool) -> None:
        """Bring everything derived up to date in one transaction; damaged data is set aside."""
        while True:
            try:
                with transaction(self.connection):
                    self._derive(entries, replaced, ranks_changed)
                return
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
            pq.read_table(self.folder / entry.path)
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:400]
            return replace(entry, problem=f"{entry.path} was set aside: {reason}")
        return entry

    def _derive(self, entries: list[FileEntry], replaced: list[str], ranks_changed: bool) -> None:
        now_ns = time.time_ns()
        skip = set(replaced)
        self.advance()
        self.manifest.add([entry for entry in entries if entry.path not in skip])
        self.manifest.retire(replaced, now_ns)
        if ranks_changed:
            self._store_ranks()
        self._store_arrivals(entries, now_ns)
        usable = [e for e in entries if not e.problem and e.num_rows and e.path not in skip]
        self._store_rows("steps", "step_rows", usable)
        axes = self._axes.before()
        self._store_rows("groups", "group_members", usable)
        touched = touched_steps(self.connection, usable, self.relative)
        for attempt in self._axes.update(axes):
            touched[attempt] = self._all_steps(attempt)
        if ranks_changed or any(entry.table_name == "clocks" for entry in entries):
            for attempt in self._store_clocks():
                touched[attempt] = self._all_steps(attempt)
        RollupPass(self.connection, self.folder, self.relative).update(touched)

    def _files(self, entries: list[FileEntry], table: str) -> list[str]:
        return [str(self.folder / entry.path) for entry in entries if entry.table_name == table]

    def _store_rows(self, table: str, statement: str, entries: list[FileEntry]) -> None:
        files = self._files(entries, table)
        if files:
            self.connection.execute(index_sql(statement), {table: files})

    def _store_clocks(self) -> set[int]:
        """Rewrite the clock offsets; attempts in which a rank's clock has become known."""
        known = "SELECT DISTINCT attempt, rank FROM clock_offsets"
        before = set(self.connection.execute(known).fetchall())
        self.connection.execute("DELETE FROM clock_offsets")
        files = [str(self.folder / path) for path in self.manifest.pick("clocks")]
        statement = index_sql("clock_offsets")
        if not files:
            statement = statement.replace(_CLOCK_FILES, _NO_CLOCKS)
        self.connection.execute(statement, {"clocks": files} if files else {})
        after = set(self.connection.execute(known).fetchall())
        return {attempt for attempt, _ in before ^ after}

    def _all_steps(self, attempt: int) -> tuple[int, int]:
        row = self.connection.execute(
            "SELECT min(step_min), max(step_max) FROM files"
            " WHERE attempt = ? AND problem IS NULL AND num_rows > 0"
            " AND list_contains(?, table_name)",
            [attempt, list(TOUCHING)],
        ).fetchall()[0]
        return (row[0], row[1]) if row[0] is not None else (0, -1)

    def _store_arrivals(self, entries: list[FileEntry], now_ns: int) -> None:
        """When each rank was heard of last, by this machine's clock, never by the ranks'."""
        latest: dict[tuple[int, int], int] = {}
        for entry in entries:
            if entry.problem or entry.rank_min != entry.rank_max:
                continue
            arrived_ns = now_ns
            if self._first_pass:
                try:
                    arrived_ns = min(now_ns, (self.folder / entry.path).stat().st_mtime_ns)
                except OSError:
                    continue
            key = entry.attempt, entry.rank_min
            latest[key] = max(latest.get(key, 0), arrived_ns)
        rows = pa.table(
            {
                "attempt": [attempt for attempt, _ in latest],
                "rank": [rank for _, rank in latest],
                "arrived_ns": list(latest.values()),
            },
            schema=_ARRIVALS,
        )
        self.connection.register("fresh_arrivals", rows)
        self.connection.execute(
            "INSERT INTO arrivals SELECT * FROM fresh_arrivals ON CONFLICT DO UPDATE"
            " SET arrived_ns = greatest(arrived_ns, excluded.arrived_ns)"
        )
        self.connection.unregister("fresh_arrivals")

    def _store_ranks(self) -> None:
        ranks, problems = self._rank_files.read()
        self.connection.execute("DELETE FROM problems WHERE source = 'ranks'")
        for text in problems:
            self.connection.execute("INSERT INTO problems VALUES ('ranks', ?)", [text])
        self.connection.execute("DELETE FROM ranks")
        rows = pa.Table.from_pylist([_rank_row(info) for info in ranks], schema=_RANK_SCHEMA)
        self.connection.register("fresh_ranks", rows)
        self.connection.execute("INSERT INTO ranks SELECT * FROM fresh_ranks")
        self.connection.unregister("fresh_ranks")


_CLOCK_FILES = "read_parquet($clocks, hive_partitioning = false)"
_NO_CLOCKS = (
    "(SELECT 0 AS attempt, 0 AS rank, 0 AS ts_ns, 0 AS offset_ns, 0 AS err_ns, 0 AS drift_ppb,"
    " '' AS method WHERE false)"
)

_ARRIVALS = pa.schema([(name, pa.int64()) for name in ("attempt", "rank", "arrived_ns")])
_RANK_SCHEMA = pa.schema(
    [("attempt", pa.int64()), ("rank", pa.int64()), ("world_size", pa.int64())]
    + [("host", pa.string()), ("device", pa.string()), ("pid", pa.int64())]
    + [("started_ns", pa.int64()), ("ended_ns", pa.int64())]
    + [("status", pa.string()), ("error", pa.string())]
    + [(axis, pa.int64()) for axis in _COORDS]
)


def _coords(info: RankInfo) -> dict[str, int]:
    """Coordinates of a rank: as recorded, else by its layout, else unknown."""
    recorded = info.get("coords")
    if recorded:
        return recorded
    layout = info.get("layout")
    if not layout:
        return {}
    try:
        return ParallelLayout.from_json(layout).coords(info["rank"])
    except ValueError:
        return {}


def _rank_row(info: RankInfo) -> dict[str, object]:
    end = info.get("end") or {}
    coords = _coords(info)
    return {
        **{name: info.get(name) for name in ("attempt", "rank", "world_size", "host", "device")},
        "pid": info.get("pid"),
        "started_ns": info.get("started_ns"),
        "ended_ns": end.get("ts_ns"),
        "status": end.get("status"),
        "error": end.get("error"),
        **{axis: coords.get(axis) for axis in _COORDS},
    }
