"""Stores a run folder in a bucket.

run.json comes last: before it is there nobody takes the objects for a run. What an interrupted
upload of the same run has left is stored again, and deleted where the run has no such file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ingest.errors import UserError
from ingest.object_store.contents import is_of_run
from ingest.object_store.object_store import ObjectStore
from ingest.run_folder.run_files import RUN_FILE
from ingest.run_folder.run_paths import plain_file

_PUTS = 8
"""Objects stored at once: small ones are waits for answers."""

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


def upload_run(store: ObjectStore, folder: Path, on_stored: OnStored) -> None:
    """Store a run under the name of its folder; raises UserError, and what `on_stored` raises."""
    run = folder.name
    sizes = _files(folder)
    wanted = {f"{run}/{key}" for key in sizes}
    for left in store.objects(run):
        if f"{run}/{left.key}" not in wanted:
            store.delete(f"{run}/{left.key}")
    total, stored, stop = sum(sizes.values()), 0, threading.Event()

    def put(key: str) -> int:
        if not stop.is_set():
            store.put(folder / key, f"{run}/{key}")
        return sizes[key]

    with ThreadPoolExecutor(_PUTS, "upload") as threads:
        try:
            for num_bytes in threads.map(put, (key for key in sizes if key != RUN_FILE)):
                stored += num_bytes
                on_stored(stored, total)
        finally:
            stop.set()
    store.put(folder / RUN_FILE, f"{run}/{RUN_FILE}")
    on_stored(total, total)


def _files(folder: Path) -> dict[str, int]:
    """Bytes of each file of a run, by its key; raises UserError where it is no run."""
    paths = [path for path in folder.rglob("*") if is_of_run(str(path.relative_to(folder)))]
    try:
        sizes = {str(path.relative_to(folder)): plain_file(path).st_size for path in paths}
    except OSError as error:
        raise UserError(
            f"{folder} cannot be stored: a file in it cannot be read ({error})"
        ) from None
    if RUN_FILE not in sizes:
        raise UserError(f"{folder} has no {RUN_FILE}, so it is not a run folder; give one that has")
    return sizes
