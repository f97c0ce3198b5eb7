"""Stores a run folder in a bucket.

run.json comes last: before it is there nobody takes the objects for a run. What an interrupted
upload of the same run has left is stored again. A run that is there already gets the files it
lacks. Files with data are only ever added to a stored run: who has fetched and merged them could
not tell which rows of a merged file it has. Nothing is deleted in a bucket: what lies below the
prefix of a run may be somebody else's.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ingest.errors import UserError, disk_error
from ingest.index.index_lock import IndexLock
from ingest.index.snapshots import index_folder
from ingest.object_store.contents import is_merged, is_of_run, is_run_name, may_change
from ingest.object_store.object_store import Changed, ObjectStore, StoredObject
from ingest.query.manifest import read_entry
from ingest.run_folder.run_files import MAX_FILE_BYTES, RUN_FILE, read_run_info
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
        self._begun: set[str] = set()
        self._seen: dict[str, _Stamp] = {}
        self._changed_s = time.monotonic()
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
        """See what the bucket has of the run; raises UserError where it is another one."""
        run, files = self._folder.name, _files(self._folder)
        there = {one.key: one for one in self._store.objects(run) if is_of_run(one.key)}
        self.is_known = RUN_FILE in there
        where = f"{self._store.name}/{run}"
        if self.is_known:
            self._require_same_run(where, there[RUN_FILE])
        data = {key: one.num_bytes for key, one in there.items() if not may_change(key)}
        _require_same_data(where, files, data, self.is_known)
        if self.is_known:
            self._stored = {key: files[key] for key in data}

    def _require_same_run(self, where: str, stored: StoredObject) -> None:
        """Raise UserError where the run.json in the bucket is that of another run."""
        if stored.num_bytes > MAX_FILE_BYTES:
            raise UserError(f"{where}/{RUN_FILE} is too large to be that of a run; rename yours")
        with tempfile.TemporaryDirectory(prefix="rankscope-") as folder:
            try:
                into = Path(folder) / RUN_FILE
                self._store.fetch(f"{self._folder.name}/{RUN_FILE}", stored.num_bytes, into)
            except Changed:
                raise UserError(f"{where}/{RUN_FILE} was replaced meanwhile; try again") from None
            except OSError as error:
                raise disk_error(folder, error) from error
            try:
                there = read_run_info(Path(folder))
            except UserError as error:
                raise UserError(str(error).replace(folder, where)) from None
        here = read_run_info(self._folder)
        if (there["run"], there["created_ns"]) != (here["run"], here["created_ns"]):
            raise UserError(
                f"{where} is another run of the same name; rename {self._folder} and store it then"
            )

    @property
    def quiet_s(self) -> float:
        """How long ago a look last found that the run folder had changed."""
        return time.monotonic() - self._changed_s

    def look(self, on_stored: OnStored) -> int:
        """Store what is new, oldest first, so that no rank seems to have fallen silent; how many
        files that were. Raises UserError, and what `on_stored` raises.
        """
        files = _files(self._folder)
        if files != self._seen:
            self._seen, self._changed_s = files, time.monotonic()
        oldest_first = sorted(files.items(), key=lambda item: item[1][1])
        new = {key: stamp for key, stamp in oldest_first if stamp != self._stored.get(key)}
        num_new = len(new)
        is_run_file_new = new.pop(RUN_FILE, None) is not None
        self._put_all(new, on_stored)
        if is_run_file_new:
            self._put(RUN_FILE)
            self._stored[RUN_FILE] = files[RUN_FILE]
        return num_new

    def _put(self, key: str) -> None:
        self._begun.add(key)
        self._store.put(self._folder / key, f"{self._folder.name}/{key}")

    def _has_been_put(self, key: str, num_bytes: int) -> bool:
        """Whether a file with data is there although storing it failed, as only the answer was
        lost. Who has fetched it would take it for another one if it was stored again.
        """
        if key not in self._begun or may_change(key):
            return False
        head = self._store.heads([f"{self._folder.name}/{key}"])[0]
        return head is not None and head.num_bytes == num_bytes

    def _put_all(self, files: Mapping[str, _Stamp], on_stored: OnStored) -> None:
        total, done, stop = sum(num_bytes for num_bytes, _ in files.values()), 0, threading.Event()

        def put(key: str) -> int:
            if not stop.is_set():
                if not self._has_been_put(key, files[key][0]):
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


def _require_same_data(
    where: str, here: Mapping[str, _Stamp], there: Mapping[str, int], is_known: bool
) -> None:
    """Raise UserError unless files with data only have to be added to those in the bucket.

    `there`: bytes of those that it has; `is_known`: whether it has a run.json, too.
    """
    if is_known and any(is_merged(key) for key in here.keys() - there.keys()):
        raise UserError(
            f"the files of this run were merged since they were stored as {where}; delete it "
            "there and store the run again"
        )
    for key, num_bytes in there.items():
        if key in here and here[key][0] == num_bytes:
            continue
        if key in here:
            what = f"another {key} than this run folder, so it is another run"
        elif is_known:
            what = (
                f"{key}, which this run folder lacks: another host has stored its part of the run "
                "there, or the file was deleted or unpacked here"
            )
        else:
            what = (
                f"{key}, which this run folder lacks, and no {RUN_FILE}: another run is being "
                "stored there, or was not wholly"
            )
        raise UserError(f"{where} has {what}; rename this run folder, and store it then")


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
            except FileNotFoundError:
                continue  # it has gone since the folder was listed
            except OSError as error:
                raise UserError(f"{path} cannot be stored: {error}") from None
            files[key] = state.st_size, state.st_mtime_ns
            merged |= set(read_entry(folder, key, tier=1)[1]) if is_merged(key) else set()
    if RUN_FILE not in files:
        raise UserError(f"{folder} has no {RUN_FILE}, so it is not a run folder; give one that has")
    return {key: stamp for key, stamp in files.items() if key not in merged}
