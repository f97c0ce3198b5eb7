"""One run of a bucket as a run folder on this machine, which grows as the run does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import UserError, disk_error
from ingest.object_store.contents import is_merged, is_of_run, may_change
from ingest.object_store.journal import Damaged, Journal
from ingest.object_store.object_store import Changed, ObjectStore, StoredObject, StoreError
from ingest.query.manifest import read_entry
from ingest.run_folder.run_files import MAX_FILE_BYTES, RUN_FILE

MIRROR = ".mirror"
"""Folder in the run folder: the journal, and what is being fetched."""
MOST_OBJECTS = 500_000
"""Of one run: a listing of more takes 500 requests and half a GB of memory, each time."""
FETCHES = 8
"""Objects fetched at once: small ones are waits for answers."""
_BATCH, _BATCH_BYTES = 500, 256 << 20
"""Objects that get their names together; what a killed server fetched of one is fetched again."""

_MERGED = (0, 0)
"""Stamp in the journal of a file that is not fetched, as a merged one has its rows."""

Room = Callable[[int], None]
"""Called with the bytes that will be fetched; makes room for them or raises UserError."""
OnFetched = Callable[[int, int], None]
"""Called with (objects fetched, objects to fetch)."""


class Stopped(Exception):
    """The fetching was stopped; what was fetched of the run stays."""


@dataclass(frozen=True)
class Look:
    """What one look at the bucket found: objects listed, and how many of them are new here.
    `is_whole`: whether the folder is that of a run by now.
    """

    num_listed: int
    num_new: int
    is_whole: bool


class MirroredRun:
    """`folder`: of the run on this machine. One thread at a time, one process at a time."""

    def __init__(self, store: ObjectStore, prefix: str, folder: Path) -> None:
        self._store = store
        self._prefix = prefix
        self._folder = folder
        self._staged = folder / MIRROR / "staged"
        self._journal_file = folder / MIRROR / "objects.jsonl"
        self._journal: Journal | None = None

    def look(self, room: Room, on_fetched: OnFetched, stop: threading.Event) -> Look:
        """Fetch what is new in the bucket. run.json comes last: the folder is that of a run only
        once all that was there at this look is in it.

        Raises UserError; Damaged where the folder must be deleted; Stopped.
        """
        try:
            if self._journal is None or not self._journal_file.exists():  # or it was deleted
                self._journal = self._recovered()
            journal = self._journal
            listed = self._listed()
            if _is_of_another_run(listed, journal):
                raise Damaged
            new = [stored for stored in listed if _is_new(stored, journal)]
            room(sum(stored.num_bytes for stored in new))
            is_there = RUN_FILE in journal.known
            if is_there and any(is_merged(stored.key) for stored in new):
                raise Damaged  # it has rows that were fetched, and may have been merged here, too
            num_fetched = num_changed = 0
            for batch in _batches(sorted(new, key=_order)):
                batch = [stored for stored in batch if _is_new(stored, journal)]
                if num_changed and not is_there and any(s.key == RUN_FILE for s in batch):
                    break  # the next look fetches what has changed during this one
                num_taken = self._take(batch, journal, stop)
                num_fetched += num_taken
                num_changed += len(batch) - num_taken
                on_fetched(num_fetched, len(new))
            return Look(len(listed), num_fetched, RUN_FILE in journal.known)
        except OSError as error:
            raise disk_error(str(self._folder), error) from error

    def _listed(self) -> list[StoredObject]:
        """The files of the run in the bucket; raises UserError."""
        where = self._store.name if not self._prefix else f"{self._store.name}/{self._prefix}"
        listed = self._store.objects(self._prefix)
        if len(listed) > MOST_OBJECTS:
            raise UserError(
                f"{where} has {len(listed):,} objects, and runs of up to {MOST_OBJECTS:,} are "
                "served from a bucket; serve this one from a disk, where it is merged"
            )
        listed = [stored for stored in listed if is_of_run(stored.key)]
        for stored in listed:
            if may_change(stored.key) and stored.num_bytes > MAX_FILE_BYTES:
                raise UserError(
                    f"{where}/{stored.key} has {stored.num_bytes:,} bytes, so it is no file of a "
                    "run; delete it, or store the run again"
                )
        if all(stored.key != RUN_FILE for stored in listed):
            raise UserError(f"{where} has no {RUN_FILE}; it is being stored, or is no run")
        return listed

    def _recovered(self) -> Journal:
        """The journal, after a server that was killed; raises Damaged, OSError."""
        for name in ("segments", "ranks", "compacted"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
            (self._staged / name).mkdir(parents=True, exist_ok=True)
        if not self._journal_file.exists() and (self._folder / RUN_FILE).exists():
            raise Damaged
        journal = Journal(self._journal_file)
        for file in [path for path in self._staged.rglob("*") if path.is_file()]:
            key = str(file.relative_to(self._staged))
            if key in journal.known:
                file.replace(self._folder / key)
            else:
                file.unlink()
        return journal

    def _take(self, batch: Sequence[StoredObject], journal: Journal, stop: threading.Event) -> int:
        """Fetch some objects, note them, and give them their names; how many there were. Where the
        storage fails for one, the others are here all the same.
        """
        failures: list[StoreError] = []

        def fetched(stored: StoredObject) -> bool:
            try:
                return self._fetch(stored, stop)
            except StoreError as error:
                failures.append(error)
                return False

        with ThreadPoolExecutor(FETCHES, "fetch") as threads:
            whole = list(threads.map(fetched, batch))
        _check(stop)
        taken = [stored for stored, is_whole in zip(batch, whole, strict=True) if is_whole]
        journal.add([*taken, *self._inputs(taken)])
        for stored in taken:
            (self._staged / stored.key).replace(self._folder / stored.key)
        if failures:
            raise failures[0]
        return len(taken)

    def _inputs(self, fetched: Sequence[StoredObject]) -> list[StoredObject]:
        """The files whose rows are in merged ones: they are not fetched, however late they come."""
        inputs = [
            path
            for stored in fetched
            if is_merged(stored.key)
            for path in read_entry(self._staged, stored.key, tier=1)[1]
        ]
        return [StoredObject(path, *_MERGED) for path in inputs if is_of_run(path)]

    def _fetch(self, stored: StoredObject, stop: threading.Event) -> bool:
        """Stage an object whole; False where it has changed since it was listed."""
        _check(stop)
        target = self._staged / stored.key
        part = target.with_name(f".{target.name}.part")
        part.unlink(missing_ok=True)
        try:
            key = f"{self._prefix}/{stored.key}" if self._prefix else stored.key
            self._store.fetch(key, stored.num_bytes, part)
            if not stored.key.startswith("ranks/"):  # the index asks which are new here
                # as old as the object: readers tell by it whether a run still grows
                os.utime(part, ns=(stored.changed_ns, stored.changed_ns))
            part.replace(target)
        except Changed:
            return False
        finally:
            part.unlink(missing_ok=True)
        return True


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped


def _is_new(stored: StoredObject, journal: Journal) -> bool:
    known = journal.known.get(stored.key)
    return known is None or (may_change(stored.key) and known != stored.stamp)


def _is_of_another_run(listed: Sequence[StoredObject], journal: Journal) -> bool:
    """Whether data that was fetched is not what the bucket has under its name, or has gone from
    there while run.json was written again: the run was deleted, and another one stored there.
    """
    fetched = {key: s for key, s in journal.known.items() if not may_change(key) and s != _MERGED}
    stamps = {stored.key: stored.stamp for stored in listed}
    if any(stamps.get(key, stamp) != stamp for key, stamp in fetched.items()):
        return True
    is_run_file_same = stamps[RUN_FILE] == journal.known.get(RUN_FILE)
    return not is_run_file_same and not fetched.keys() <= stamps.keys()


def _order(stored: StoredObject) -> tuple[int, int, str]:
    """Oldest first: by name, ranks of great numbers would seem to have fallen silent meanwhile."""
    return _turn(stored), stored.changed_ns, stored.key


def _turn(stored: StoredObject) -> int:
    """Merged files first, as they say what need not be fetched; run.json last."""
    return 0 if is_merged(stored.key) else 2 if stored.key == RUN_FILE else 1


def _batches(objects: Sequence[StoredObject]) -> Iterator[list[StoredObject]]:
    """In the same order; none has files of two turns."""
    batch: list[StoredObject] = []
    num_bytes = 0
    for stored in objects:
        is_full = len(batch) >= _BATCH or num_bytes + stored.num_bytes > _BATCH_BYTES
        if batch and (is_full or _turn(stored) != _turn(batch[0])):
            yield batch
            batch, num_bytes = [], 0
        batch.append(stored)
        num_bytes += stored.num_bytes
    if batch:
        yield batch
