"""Stores a run folder in a bucket.

run.json comes last: before it is there nobody takes the objects for a run. What an interrupted
upload of the same run has left is stored again, and deleted where the run has no such file. A run
that is there already gets the files it lacks. Files with data are only ever added to a stored run:
who has fetched and merged them could not tell which rows of a merged file it has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ingest.errors import UserError
from ingest.index.index_lock import IndexLock
from ingest.index.snapshots import index_folder
from ingest.object_store.contents import is_merged, is_of_run, is_run_name, may_change
from ingest.object_store.object_store import ObjectStore
from ingest.query.manifest import read_entry
from ingest.run_folder.run_files import RUN_FILE
from ingest.run_folder.run_paths import plain_file

_PUTS = 8
"""Objects stored at once: small ones are waits for answers."""

_Stamp = tuple[int, int]
"""Bytes and time of change of a file."""
OnStored = Callable[[int, int], None]
"""Called with (bytes stored, bytes in all) from one thread; it may raise to end the upload."""


def stored_as(store: ObjectStore, run: str) -> str | None:
    """Name of the run in the bucket with the content of an imported one, whose name ends in a hash
    of it; None where there is none. Raises StoreError.
    """
    digest = run.rpartition("-")[2]
    same = [name for name in store.folders() if name == run or name.endswith(f"-{digest}")]
    heads = store.heads([f"{name}/{RUN_FILE}" for name in same])
    return next((name for name, head in zip(same, heads, strict=True) if head is not None), None)


class RunUpload:
    """A run that is stored under the name of its folder, and again as it grows; a context manager,
    as nobody may merge the files meanwhile. `is_known`: a part of it was there before.
    """

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        """Raises UserError for a folder that cannot be stored."""
        if not is_run_name(folder.name):
            raise UserError(
                f"{folder} has a name that no run in a bucket can have: it is hidden, longer than "
                "200 bytes, or has unprintable characters or a \\; rename it"
            )
        self.is_known = False
        self._store = store
        self._folder = folder
        self._stored: dict[str, _Stamp] = {}
        self._lock = IndexLock(index_folder(folder))

    def __enter__(self) -> RunUpload:
        if not self._lock.acquire():
            raise UserError(
                f"another process is indexing {self._folder}, and would merge files meanwhile; "
                "stop it, and store the run then"
            )
        try:
            self._compare()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _compare(self) -> None:
        """See what the bucket has, and delete there what an interrupted upload has left."""
        run, files = self._folder.name, _files(self._folder)
        there = {stored.key: stored.num_bytes for stored in self._store.objects(run)}
        self.is_known = RUN_FILE in there
        if self.is_known:
            _require_same_files(f"{self._store.name}/{run}", files.keys(), there.keys())
            same = {key: stamp for key, stamp in files.items() if stamp[0] == there.get(key)}
            self._stored = {key: stamp for key, stamp in same.items() if not may_change(key)}
        for key in there.keys() - files.keys():
            self._store.delete(f"{run}/{key}")

    def look(self, on_stored: OnStored) -> None:
        """Store what is new; raises UserError, and what `on_stored` raises."""
        files = _files(self._folder)
        new = {key: stamp for key, stamp in files.items() if stamp != self._stored.get(key)}
        is_run_file_new = new.pop(RUN_FILE, None) is not None
        self._put_all(new, on_stored)
        if is_run_file_new:
            self._put(RUN_FILE)
            self._stored[RUN_FILE] = files[RUN_FILE]

    def _put(self, key: str) -> None:
        self._store.put(self._folder / key, f"{self._folder.name}/{key}")

    def _put_all(self, files: Mapping[str, _Stamp], on_stored: OnStored) -> None:
        total, done, stop = sum(num_bytes for num_bytes, _ in files.values()), 0, threading.Event()

        def put(key: str) -> int:
            if not stop.is_set():
                self._put(key)
                self._stored[key] = files[key]
            return files[key][0]

        with ThreadPoolExecutor(_PUTS, "upload") as threads:
            try:
                for num_bytes in threads.map(put, files):
                    done += num_bytes
                    on_stored(done, total)
            finally:
                stop.set()


def upload_run(store: ObjectStore, folder: Path, on_stored: OnStored) -> bool:
    """Store a run once; whether a part of it was there before. As RunUpload."""
    with RunUpload(store, folder) as upload:
        upload.look(on_stored)
        return upload.is_known


def _require_same_files(where: str, here: Set[str], there: Set[str]) -> None:
    """Raise UserError where files of a stored run were merged or unpacked since: who has fetched
    them could not tell which rows are in both.
    """
    gone = [key for key in there - here if not may_change(key)]
    if gone or any(is_merged(key) for key in here - there):
        raise UserError(
            f"the files of this run were merged since they were stored as {where}; delete it "
            "there and store the run again"
        )


def _files(folder: Path) -> dict[str, _Stamp]:
    """The files of a run by their keys, without those whose rows are in merged ones; raises
    UserError where it is no run.
    """
    files, merged = {}, set()
    for path in folder.rglob("*"):
        key = str(path.relative_to(folder))
        if is_of_run(key):
            try:
                state = plain_file(path)
            except OSError as error:
                raise UserError(f"{path} cannot be stored: {error}") from None
            files[key] = state.st_size, state.st_mtime_ns
            merged |= set(read_entry(folder, key, tier=1)[1]) if is_merged(key) else set()
    if RUN_FILE not in files:
        raise UserError(f"{folder} has no {RUN_FILE}, so it is not a run folder; give one that has")
    return {key: stamp for key, stamp in files.items() if key not in merged}
