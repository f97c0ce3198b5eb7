"""Takes steps out of a run as its retention.json says: out of the index at once, then out of files.

All rows of these steps go, on all ranks, so that nothing compares ranks over steps of which some
have lost their rows. What later steps need stays: process groups and clocks, and what was recorded
before the first step. A file whose rows all go is retired; one of which some stay is written again
without the others, as merging does it (compaction.py): a crash at any moment loses and doubles
nothing. The next pass goes on where one ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.index.compaction import Compaction
from ingest.intervals import Bools, Ints
from ingest.query.manifest import FileEntry
from ingest.run_folder.retention_file import RETENTION_FILE, read_retention
from ingest.run_folder.step_ranges import StepRange, united

Update = Callable[[dict[int, tuple[int, int]]], None]

KEPT_TABLES = ("groups", "clocks")
"""Tables whose rows say something about later steps, too."""
_DERIVED = (
    "SELECT table_name FROM duckdb_tables() JOIN duckdb_columns() USING (database_name, table_name)"
    " WHERE NOT temporary AND column_name IN ('attempt', 'step')"
    " GROUP BY ALL HAVING count(*) = 2"
)
"""Tables of the index with rows of steps."""
_FORGET = (
    "DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM removed_steps r"
    " WHERE r.attempt = {table}.attempt AND step BETWEEN first_step AND last_step)"
)
_AFTER = (
    "SELECT DISTINCT r.attempt, (SELECT min(s.step) FROM step_rollup s"
    " WHERE s.attempt = r.attempt AND s.step > r.last_step) AS step FROM removed_steps r"
)
_WHOLE = "f.step_min >= r.first_step AND f.step_max <= r.last_step"
_FILES = (
    "SELECT DISTINCT f.* FROM files f JOIN removed_steps r ON r.attempt = f.attempt"
    " AND f.step_min <= r.last_step AND f.step_max >= r.first_step"
    " WHERE f.problem IS NULL AND f.num_rows > 0 AND NOT list_contains($kept, f.table_name)"
    " AND f.path NOT IN (SELECT path FROM trimmed) AND {which} ORDER BY f.path"
)


class Removal:
    """Removes steps of the run whose files `compaction` merges.

    `update_rollups` sums steps up again: first and last one by attempt.
    """

    def __init__(self, compaction: Compaction, update_rollups: Update) -> None:
        self._compaction, self._database = compaction, compaction.database
        self._update_rollups = update_rollups
        self._stamp: object = None
        self._wanted = self._ranges = self._stored()

    def is_news(self) -> bool:
        """Whether retention.json wants other steps removed than the index knows of. Raises
        UserError where it is damaged.
        """
        stamp = _stamp(self._database.run_folder / RETENTION_FILE)
        if stamp != self._stamp:
            removed = read_retention(self._database.run_folder).removed
            self._wanted = united([*self._stored(), *removed])  # they do not come back
            self._stamp = stamp
        return self._wanted != self._stored()

    def store(self) -> bool:
        """Note in the index which steps are removed; whether they are others than before."""
        connection, is_news = self._database.connection, self._wanted != self._stored()
        self._ranges = self._wanted
        if is_news:
            connection.execute("DELETE FROM removed_steps")
            connection.execute("DELETE FROM trimmed")
            rows = [[one.attempt, one.first, one.last] for one in self._wanted]
            if rows:
                connection.executemany("INSERT INTO removed_steps VALUES (?, ?, ?)", rows)
        return is_news

    def forget(self) -> None:
        """Delete what the index derived of the removed steps."""
        if self._ranges:
            connection = self._database.connection
            for (table,) in connection.execute(_DERIVED).fetchall():
                connection.execute(_FORGET.format(table=table))

    def update_following(self) -> None:
        """Sum up again the steps that follow removed ones: their windows begin elsewhere now."""
        for attempt, step in self._database.connection.execute(_AFTER).fetchall():
            if step is not None:
                self._update_rollups({attempt: (step, step)})
        self.forget()

    def trim(self, limit_s: float = math.inf) -> int:
        """Take rows of removed steps out of files, for about limit_s; returns the number of files
        retired or written again. Raises what writing raises.
        """
        if not self._ranges:
            return 0
        until_s = time.monotonic() + limit_s
        whole = self._files(_WHOLE)
        if whole:
            self._retire(whole)
        done = len(whole)
        try:
            for entry in self._files(f"NOT ({_WHOLE})"):
                if time.monotonic() >= until_s:
                    break
                done += self._cut(entry)
        finally:  # also where the disk became full on the way
            if done:
                with self._database.transaction():
                    self.update_following()
        return done

    def _stored(self) -> list[StepRange]:
        rows = self._database.connection.execute("SELECT * FROM removed_steps ORDER BY ALL")
        return [StepRange(*row) for row in rows.fetchall()]

    def _files(self, which: str) -> list[FileEntry]:
        """Files with rows of removed steps, as far as their ranges of steps tell."""
        text = _FILES.format(which=which)
        rows = self._database.connection.execute(text, {"kept": list(KEPT_TABLES)}).fetchall()
        return [FileEntry(*row) for row in rows]

    def _retire(self, entries: list[FileEntry]) -> None:
        with self._database.transaction():
            self._database.manifest.retire([entry.path for entry in entries], time.time_ns())

    def _cut(self, entry: FileEntry) -> int:
        """Take out of a file the rows that go; the number of files that changed."""
        mine = [one for one in self._ranges if one.attempt == entry.attempt]
        try:
            rows = pq.read_table(self._database.file(entry.path), columns=["step"])
        except (pa.ArrowException, OSError):
            self._compaction.set_damaged_aside([entry])
            return 0
        is_removed = _is_removed(rows, mine)
        if is_removed.all():
            self._retire([entry])
            return 1
        path: str | None = entry.path
        if is_removed.any():
            path = self._compaction.rewrite(entry, lambda r: r.filter(~_is_removed(r, mine)))
        if path is not None:
            self._database.connection.execute("INSERT OR IGNORE INTO trimmed VALUES (?)", [path])
        return int(is_removed.any())


def _is_removed(rows: pa.Table, ranges: list[StepRange]) -> Bools:
    """Which rows of a table are of steps in the ranges, which ascend."""
    step: Ints = rows.column("step").to_numpy()
    first = np.array([one.first for one in ranges], dtype=np.int64)
    last = np.array([one.last for one in ranges], dtype=np.int64)
    at = np.searchsorted(first, step, side="right") - 1
    return (at >= 0) & (step <= last[np.maximum(at, 0)])


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_ino, state.st_size
