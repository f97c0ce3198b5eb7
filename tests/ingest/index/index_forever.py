"""Indexes a run until killed, merging eagerly and deleting at once. For the kill tests."""

from __future__ import annotations

import sys
from pathlib import Path

from ingest.index import compaction
from ingest.index.indexer import Indexer

compaction.FIRST_FAN_IN = 4
compaction.FAN_IN = 2
compaction.MOST_SEGMENTS = 8


def main(folder: str) -> None:
    """Refresh without a pause."""
    with Indexer(Path(folder)) as indexer:
        indexer.compaction.grace_s = 0.0
        print("ready", flush=True)
        while True:
            indexer.refresh()


if __name__ == "__main__":
    main(sys.argv[1])
