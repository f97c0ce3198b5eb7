"""The list of the runs in a bucket: the folders right below an address that have a run.json.

A listing asks for the names of folders only, and each folder is asked once for its run.json: a
bucket of 1,000 runs costs one request per look.
"""

from __future__ import annotations

from ingest.object_store.contents import is_run_name
from ingest.object_store.object_store import ObjectStore
from ingest.run_folder.run_files import RUN_FILE

_ASKED_AT_ONCE = 1000
"""Folders asked for their run.json in one look; one without may be a run that is being stored."""


class BucketRuns:
    """The runs as `look` found them last. One thread looks, many may read."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._changed_ns: dict[str, int] = {}
        self._num_asked: dict[str, int] = {}
        self._only = ""

    def look(self) -> None:
        """List the bucket; raises StoreError."""
        head = self._store.heads([RUN_FILE])[0] if not self._changed_ns or self._only else None
        if head is not None:
            self._only = self._store.last_name
            self._changed_ns = {self._only: head.changed_ns}
            return
        self._only = ""
        found = [name for name in self._store.folders() if is_run_name(name)]
        unknown = [name for name in found if name not in self._changed_ns]
        unknown.sort(key=lambda name: self._num_asked.get(name, 0))
        asked = unknown[:_ASKED_AT_ONCE]
        heads = self._store.heads([f"{name}/{RUN_FILE}" for name in asked])
        new = {n: head.changed_ns for n, head in zip(asked, heads, strict=True) if head is not None}
        counted = self._num_asked
        self._num_asked = {name: counted.get(name, 0) + (name in asked) for name in unknown}
        self._changed_ns = {n: self._changed_ns[n] for n in found if n in self._changed_ns} | new

    def names(self) -> list[str]:
        """Names of the runs, newest run.json first."""
        changed_ns = self._changed_ns
        return sorted(changed_ns, key=lambda name: (-changed_ns[name], name))

    def has(self, name: str) -> bool:
        """Whether there is a run of that name."""
        return name in self._changed_ns

    def changed_ns(self, name: str) -> int:
        """When the run.json of a run was stored, Unix ns; 0 where there is none."""
        return self._changed_ns.get(name, 0)

    def prefix(self, name: str) -> str:
        """Where the objects of a run are, below the address."""
        return "" if name == self._only else name

    def is_gone(self, name: str) -> bool:
        """Whether a run that is not in the list is not in the bucket either; raises StoreError."""
        return self._store.heads([f"{name}/{RUN_FILE}"])[0] is None
