"""The runs of a bucket as run folders on this machine, for a server of runs.

One thread looks for runs in the bucket. A run is fetched when somebody opens it, and followed by a
thread of its own while somebody uses it. All else (index, pages, SQL) sees only the folders here.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ingest.errors import UserError, disk_error
from ingest.object_store.bucket_runs import BucketRuns
from ingest.object_store.cache import Cache
from ingest.object_store.following import Following
from ingest.object_store.mirrored_run import MirroredRun
from ingest.object_store.object_store import ObjectStore

RUNS_EVERY_S = 10.0
"""How often the bucket is listed for runs that have come or gone."""
MOST_FOLLOWED = 32
"""Runs followed at once: as many as a server has open."""
UNUSED_S = 600.0
"""A run that nobody asked for so long is not in use: it is not followed, and may be deleted."""
_CLOSE_S = 2.0


class Mirror:
    """The runs at one address; a context manager. Safe from many threads. Raises UserError where
    the bucket cannot be listed or the cache cannot be written.
    """

    def __init__(
        self, store: ObjectStore, cache: Path, most_bytes: float, unused_s: float = UNUSED_S
    ) -> None:
        self.name = store.name
        self._store = store
        self._bucket = BucketRuns(store)
        self._bucket.look()
        self._cache = Cache(cache, most_bytes, self._is_in_use)
        self._unused_s = unused_s
        self._problem = ""
        self._followed: dict[str, Following] = {}
        self._used_s: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_for_runs, name="bucket", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The folder of run folders on this machine."""
        return self._cache.runs

    def names(self) -> list[str]:
        """Names of the runs in the bucket, newest first."""
        return self._bucket.names()

    def has(self, name: str) -> bool:
        """Whether the bucket has a run of that name."""
        return self._bucket.has(name)

    def stored_ns(self, name: str) -> int:
        """When the run.json of a run was stored, Unix ns by the storage's clock; 0 unknown."""
        return self._bucket.changed_ns(name)

    def is_followed(self, name: str) -> bool:
        """Whether what is here of a run is all that the bucket had some seconds ago."""
        followed = self._followed.get(name)
        return followed is not None and followed.has_looked and not followed.has_ended

    def use(self, name: str) -> None:
        """Somebody asks for a run of the bucket: fetch and follow it. Waits for nothing."""
        with self._lock:
            if not self._bucket.has(name) or self._stop.is_set():
                return
            num_followed = sum(not one.has_ended for one in self._followed.values())
            if num_followed >= MOST_FOLLOWED and not self._is_in_use(name):
                return
            self._used_s[name] = time.monotonic()
            followed = self._followed.get(name)
            if followed is None or followed.has_ended:
                run = MirroredRun(self._store, self._bucket.prefix(name), self.folder / name)
                self._followed[name] = Following(name, run, self._cache, self._is_used)

    def about(self, name: str) -> str:
        """Why a run of the bucket is not here yet, one sentence."""
        if not self._is_in_use(name):
            return (
                f"{name} waits: {MOST_FOLLOWED} runs of {self.name} are in use already; this page "
                "opens automatically, ten minutes after nobody looks at one of them"
            )
        followed = self._followed.get(name)
        progress = followed.progress if followed else ""
        return f"{name} is fetched from {self.name}{progress}; this page opens automatically"

    def problem(self, name: str) -> str:
        """What keeps a run from being fetched or followed, one sentence; empty: nothing."""
        followed = self._followed.get(name)
        return followed.problem if followed else ""

    def problems(self) -> list[str]:
        """What keeps the list of runs, or runs in use, from being brought up to date."""
        with self._lock:
            texts = [one.problem for one in self._followed.values() if not one.has_ended]
        return list(dict.fromkeys(text for text in (self._problem, *texts) if text))

    def close(self) -> None:
        """Stop fetching and following; requests under way get a moment to end. While one goes on,
        the cache stays that of this process.
        """
        self._stop.set()
        with self._lock:
            followed = list(self._followed.values())
        for one in followed:
            one.stop.set()
        until_s = time.monotonic() + _CLOSE_S
        for one in followed:
            one.join(max(0.0, until_s - time.monotonic()))
        self._thread.join(max(0.0, until_s - time.monotonic()))
        if not self._thread.is_alive() and all(one.has_ended for one in followed):
            self._cache.close()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _is_used(self, name: str) -> bool:
        used_s = self._used_s.get(name)
        return used_s is not None and time.monotonic() - used_s < self._unused_s

    def _is_in_use(self, name: str) -> bool:
        """Whether the folder of a run must stay."""
        followed = self._followed.get(name)
        return self._is_used(name) or (followed is not None and not followed.has_ended)

    def _look_for_runs(self) -> None:
        while not self._stop.wait(RUNS_EVERY_S):
            try:
                self._bucket.look()
                self._delete_gone()
                self._cache.make_room("", 0)  # indexes grow, too
                self._problem = ""
            except UserError as error:
                self._problem = str(error)
            except OSError as error:
                self._problem = str(disk_error(str(self.folder), error))

    def _delete_gone(self) -> None:
        """Delete what is here of runs that are not in the bucket any more."""
        for name in self._cache.names():
            if self._bucket.has(name) or not self._bucket.is_gone(name):
                continue
            followed = self._followed.get(name)
            if followed is not None and not followed.has_ended:
                followed.stop.set()  # the next look deletes it
            else:
                self._cache.delete(name)
