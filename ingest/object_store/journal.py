"""Which objects of a run are in its mirror: a line of JSON for each, in .mirror/ of the run folder.

The index merges segments and deletes them, so the files in the folder do not say what was fetched.
An object is staged whole, then noted here, then gets its name in the run folder. So after a crash
at any moment what is staged and noted gets its name, and what is staged and not noted is fetched
again: nothing is missing, and nothing comes twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ingest.object_store.object_store import StoredObject

Stamp = tuple[int, int]


class Damaged(Exception):
    """It is unknown what was fetched."""


class Journal:
    """`known`: the stamp of each object when it was fetched, by key."""

    def __init__(self, path: Path) -> None:
        """Raises Damaged, and OSError."""
        self._path = path
        self.known: dict[str, Stamp] = {}
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        try:
            for line in whole.splitlines():
                key, num_bytes, changed_ns = json.loads(line)
                self.known[str(key)] = int(num_bytes), int(changed_ns)
        except (ValueError, TypeError):
            raise Damaged from None
        if len(whole) < len(content):  # the process was killed while it wrote the last line
            os.truncate(path, len(whole))

    def add(self, objects: Sequence[StoredObject]) -> None:
        """Note that objects are staged whole; raises OSError."""
        lines = [json.dumps([stored.key, *stored.stamp]) + "\n" for stored in objects]
        with self._path.open("a", encoding="ascii") as file:
            file.write("".join(lines))
            file.flush()
            os.fsync(file.fileno())
        self.known |= {stored.key: stored.stamp for stored in objects}
