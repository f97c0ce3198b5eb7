"""Enforces retention for runs that are not open, in a thread of the server.

The followers of open runs do so for those: they own the indexes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.runs.hub import Hub
from ingest.errors import UserError
from ingest.index.indexer import Busy, Indexer
from ingest.index.retention import Keep, content_files
from ingest.index.snapshots import index_folder

LOOK_EVERY_S = 600.0
"""A file is retired at one look and deleted at the next."""


@contextmanager
def content_kept(hub: Hub) -> Iterator[None]:
    """While the block runs, content of all runs goes as `hub.keep` says."""
    stop = threading.Event()
    if not hub.keep.is_bounded:
        yield
        return
    thread = threading.Thread(target=_look_after, args=(hub, stop), name="content", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()


def _look_after(hub: Hub, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(UserError):  # the folder of runs has gone for now
            for folder in hub.folders():
                if not stop.is_set():
                    let_old_go(folder, hub.keep)
        stop.wait(LOOK_EVERY_S)


def let_old_go(run_folder: Path, keep: Keep) -> None:
    """Bring one run's content within bounds, unless another owner of its index does so."""
    with suppress(Busy, UserError, OSError):  # opening the run says what is wrong with it
        is_due = keep.too_much(content_files(run_folder), time.time_ns())
        if is_due and index_folder(run_folder).parent == run_folder:  # it is ours to write
            with Indexer(run_folder, keep) as indexer:
                indexer.refresh(merge=False)
