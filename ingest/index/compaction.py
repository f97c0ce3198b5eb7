"""Merges a run's many small segments into few files, losing and doubling nothing.

Files of one (table, attempt, band of 64 ranks) are merged in tiers: a number of one tier become one
of the next, sorted by (rank, time). Written whole and published by rename, a merged file names the
files it replaces in its own metadata. So a crash at any point is harmless: before the rename there
is no merged file; after it the next reader of the folder, with or without an index, takes the
merged file and leaves its inputs out. Inputs are deleted when readers had time to move on.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from ingest.index.engine import Engine
from ingest.index.index_database import IndexDatabase
from ingest.index.merging import Kept, Merge, merged_rows, publish_merged
from ingest.index.pass_plan import BAND
from ingest.query.manifest import FileEntry, read_entry
from ingest.run_folder.run_paths import is_data_path

FIRST_FAN_IN = 32
"""Segments of a (table, attempt, band) that become one file of the first tier."""
FAN_IN = 8
"""Files of a tier that become one of the next; no more of them are open at once."""
MOST_SEGMENTS = 64
"""Segments merged at a time: they are in memory together."""
CLOSED_S = 60.0
"""A table without a new file for this long is merged as far as ROWS_PER_FILE allows."""
ROWS_PER_FILE = 2_000_000
"""A file this long is not merged again: about 12 MB of spans."""
BYTES_PER_FILE = 64 << 20
"""Nor one of this many bytes: a frame takes a thousand times as many as a span, in memory too."""
GRACE_S = 60.0
"""Time between a merge and the deletion of its inputs, for readers of older snapshots."""


@dataclass(frozen=True)
class _Merged:
    """A published file, and those that it replaces."""

    batch: list[FileEntry]
    entry: FileEntry


class Compaction:
    """Merges files of the run whose index database this is."""

    def __init__(self, database: IndexDatabase, engine: Engine) -> None:
        self.database = database
        self._engine = engine
        self._newest_ns = 0
        self.grace_s = GRACE_S

    def merge_due(self, limit_s: float = math.inf) -> int:
        """Merge what is due, for about limit_s, that of which there are most files first: else a
        few large tables would take all of it. Returns the number of files merged away.

        All of it is recorded in one transaction: until then, merged files name what they replace.
        """
        until_s = time.monotonic() + limit_s
        groups = sorted(self._groups(), key=len, reverse=True)
        batches = (batch for entries in groups for batch in self._batches(entries))
        done: list[_Merged] = []
        try:
            while time.monotonic() < until_s:
                together = list(islice(batches, self._engine.merges_at_once))
                if not together:
                    break
                self._merge(together, done)
        finally:  # also where the disk became full on the way
            if done:
                self._record(done)
        return sum(len(one.batch) for one in done)

    def _groups(self) -> list[list[FileEntry]]:
        groups: dict[tuple[str, int, int], list[FileEntry]] = defaultdict(list)
        for entry in self.database.manifest.entries():
            if entry.rank_min // BAND == entry.rank_max // BAND:
                groups[entry.table_name, entry.attempt, entry.rank_min // BAND].append(entry)
        return list(groups.values())

    def _batches(self, entries: list[FileEntry]) -> list[list[FileEntry]]:
        """Files to merge now: full tiers; once the group is closed all it has, tier by tier."""
        entries = [
            entry
            for entry in entries
            if entry.num_rows < ROWS_PER_FILE and entry.num_bytes < BYTES_PER_FILE
        ]
        closed = len(entries) > 1 and self._is_closed(entries)
        tiers: dict[int, list[FileEntry]] = defaultdict(list)
        for entry in entries:
            tiers[entry.tier].append(entry)
        batches: list[list[FileEntry]] = []
        for tier, members in tiers.items():
            least, most = (FAN_IN, FAN_IN) if tier else (FIRST_FAN_IN, MOST_SEGMENTS)
            if closed or len(members) >= least:
                batches += _cut(members, most)
        if closed and all(len(batch) == 1 for batch in batches):
            batches = _cut(entries, FAN_IN)  # one of each tier is left
        return [batch for batch in batches if len(batch) > 1]

    def _is_closed(self, entries: list[FileEntry]) -> bool:
        newest = 0.0
        for entry in entries:
            try:
                newest = max(newest, (self.database.run_folder / entry.path).stat().st_mtime)
            except OSError:
                return False
        return time.time() - newest > CLOSED_S

    def _merge(self, batches: list[list[FileEntry]], done: list[_Merged]) -> None:
        (self.database.run_folder / "compacted").mkdir(exist_ok=True)
        merges = [self._prepared(batch) for batch in batches]
        failed = None
        errors = self._engine.merge(merges, self.database.require_owner)
        for batch, merge, error in zip(batches, merges, errors, strict=True):
            if error is None:
                done.append(self._described(batch, merge))
            elif not self.set_damaged_aside(batch):
                failed = error  # no file is to blame: the disk is full
        if failed is not None:
            raise failed

    def rewrite(self, entry: FileEntry, kept: Kept) -> str | None:
        """Put a file in the place of this one, with the rows that `kept` lets stay; its path, None
        where this one cannot be read. Raises OSError where the disk is full, or would be.
        """
        self._require_room(entry.num_bytes)
        (self.database.run_folder / "compacted").mkdir(exist_ok=True)
        merge, owner = self._prepared([entry]), self.database.require_owner
        try:
            publish_merged(merge.table, merge.paths, merge.merged, merge.inputs, kept, owner)
        except (pa.ArrowException, OSError):
            if not self.set_damaged_aside([entry]):
                raise
            return None
        done = self._described([entry], merge)
        self._record([done])
        return done.entry.path

    def _require_room(self, num_bytes: int) -> None:
        """Room for a file and for what must be written before the one it replaces can be deleted:
        the index, at its checkpoint and as a snapshot.
        """
        free = shutil.disk_usage(self.database.run_folder).free
        if free < num_bytes + 2 * self.database.path.stat().st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.database.run_folder))

    def _prepared(self, batch: list[FileEntry]) -> Merge:
        run_folder, first = self.database.run_folder, batch[0]
        band = first.rank_min // BAND
        self._newest_ns = max(time.time_ns(), self._newest_ns + 1)  # in no two names
        name = f"{first.table_name}-{first.attempt:04d}-band{band:05d}-{self._newest_ns}.parquet"
        inputs = [entry.path for entry in batch]
        paths, replaced = [run_folder / path for path in inputs], self._replaced_by(batch)
        return Merge(first.table_name, paths, run_folder / "compacted" / name, inputs + replaced)

    def _described(self, batch: list[FileEntry], merge: Merge) -> _Merged:
        tier = max(entry.tier for entry in batch) + (len(batch) > 1)
        path = f"compacted/{merge.merged.name}"
        entry, _ = read_entry(self.database.run_folder, path, max(tier, 1))
        if entry.problem:
            raise OSError(entry.problem)
        return _Merged(batch, entry)

    def _record(self, done: list[_Merged]) -> None:
        database = self.database
        with database.transaction():
            database.manifest.add([one.entry for one in done])
            replaced = [entry.path for one in done for entry in one.batch]
            database.manifest.retire(replaced, time.time_ns())
        database.known_paths.update(one.entry.path for one in done)

    def _replaced_by(self, batch: list[FileEntry]) -> list[str]:
        """What the batch itself replaced and is not deleted yet: no other file will name it."""
        named = {
            path
            for entry in batch
            if entry.tier
            for path in read_entry(self.database.run_folder, entry.path, entry.tier)[1]
        }
        known = (
            self.database.connection.execute("SELECT path FROM retired").fetchall() if named else []
        )
        return sorted(named & {path for (path,) in known})

    def set_damaged_aside(self, batch: list[FileEntry]) -> bool:
        """Set those aside that cannot be read, or merged with others; whether there was any."""
        any_damaged = False
        for entry in batch:
            try:
                for _ in merged_rows(entry.table_name, [self.database.run_folder / entry.path]):
                    pass
            except (pa.ArrowException, OSError) as error:
                reason = " ".join(str(error).split())[:400]
                problem = f"{entry.path} was set aside: {reason}"
                with self.database.transaction():
                    self.database.manifest.set_aside(entry.path, problem)
                any_damaged = True
        return any_damaged

    def delete_retired(self) -> list[str]:
        """Delete files that were merged away long enough ago; returns their paths."""
        connection = self.database.connection
        before_ns = time.time_ns() - int(self.grace_s * 1e9)
        rows = connection.execute(
            "SELECT path FROM retired WHERE retired_ns <= ? ORDER BY retired_ns, path", [before_ns]
        ).fetchall()
        paths = [path for (path,) in rows]
        for path in paths:
            if is_data_path(path):
                (self.database.run_folder / path).unlink(missing_ok=True)
        if paths:
            connection.execute(
                "DELETE FROM retired WHERE path IN (SELECT unnest($paths))", {"paths": paths}
            )
        return paths


def _cut(entries: list[FileEntry], most: int) -> list[list[FileEntry]]:
    """Neighbours in time: at most `most` files, together within the bounds of one file."""
    batches: list[list[FileEntry]] = [[]]
    rows = num_bytes = 0
    for entry in sorted(entries, key=lambda e: (e.step_min, e.ts_min or 0, e.path)):
        rows, num_bytes = rows + entry.num_rows, num_bytes + entry.num_bytes
        too_much = rows > ROWS_PER_FILE or num_bytes > BYTES_PER_FILE
        if batches[-1] and (len(batches[-1]) == most or too_much):
            batches.append([])
            rows, num_bytes = entry.num_rows, entry.num_bytes
        batches[-1].append(entry)
    return batches
