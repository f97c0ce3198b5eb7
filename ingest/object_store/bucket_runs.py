"""The list of the runs in a bucket: the folders right below an address that have a run.json.

A listing asks for the names of folders only, and each folder is asked once for its run.json: a
bucket of 1,000 runs costs one request per look.
"""

from __future__ import annotations

from ingest.object_store.contents import is_run_name
from ingest.object_store.object_store import ObjectStore
from ingest.run_folder.run_files import RUN_FILE

_ASKED_AT_ONCE = 1000
"""Folders asked for their run.json in one look."""
_REST = 4
"""A folder without run.json may be a run that is being stored, or something else for ever: it is
asked again after a quarter of the looks since it was first seen ..."""
_SELDOM = 360
"""... and every so many looks, an hour, however long it has been there."""


class BucketRuns:
    """The runs as `look` found them last. One thread looks, many may read."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._changed_ns: dict[str, int] = {}
        self._num_looks = 0
        self._first_and_next: dict[str, tuple[int, int]] = {}
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
        self._num_looks += 1
        asked = self._due(unknown)
        heads = self._store.heads([f"{name}/{RUN_FILE}" for name in asked])
        new = {n: head.changed_ns for n, head in zip(asked, heads, strict=True) if head is not None}
        self._note_asked(unknown, set(asked))
        self._changed_ns = {n: self._changed_ns[n] for n in found if n in self._changed_ns} | new

    def _due(self, unknown: list[str]) -> list[str]:
        """Which of the folders that had no run.json so far are asked at this look."""
        turns = {name: self._turns(name)[1] for name in unknown}
        due = [name for name in unknown if turns[name] <= self._num_looks]
        return sorted(due, key=lambda name: turns[name])[:_ASKED_AT_ONCE]

    def _note_asked(self, unknown: list[str], asked: set[str]) -> None:
        turns = {name: self._turns(name) for name in unknown}
        for name in asked:
            first = turns[name][0]
            rest = min(1 + (self._num_looks - first) // _REST, _SELDOM)
            turns[name] = first, self._num_looks + rest
        self._first_and_next = turns

    def _turns(self, name: str) -> tuple[int, int]:
        """At which look a folder without run.json was first asked, and at which it is next."""
        return self._first_and_next.get(name, (self._num_looks, self._num_looks))

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
