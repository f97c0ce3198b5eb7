"""Stores a run folder in a bucket.

run.json comes last: before it is there nobody takes the objects for a run. What an interrupted
upload of the same run has left is stored again, and deleted where the run has no such file. A run
that is there already gets what it lacks: data never changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ingest.errors import UserError
from ingest.object_store.contents import is_of_run, is_run_name, may_change
from ingest.object_store.object_store import ObjectStore
from ingest.run_folder.run_files import RUN_FILE
from ingest.run_folder.run_paths import plain_file

_PUTS = 8
"""Objects stored at once: small ones are waits for answers."""
_MOST_ROUNDS = 10
"""A run that is written meanwhile has new files after each round; the last ones stay for later."""

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


def upload_run(store: ObjectStore, folder: Path, on_stored: OnStored) -> bool:
    """Store a run under the name of its folder; whether a part of it was there before. Raises
    UserError, and what `on_stored` raises.
    """
    run, sizes = folder.name, _files(folder)
    if not is_run_name(run):
        raise UserError(
            f"{folder} has a name that no run in a bucket can have: it is hidden, longer than 200 "
            "bytes, or has unprintable characters or a \\; rename it"
        )
    there = {stored.key: stored.num_bytes for stored in store.objects(run)}
    is_known = RUN_FILE in there
    if not is_known:
        for key in there.keys() - sizes.keys():
            store.delete(f"{run}/{key}")
        there = {}
    done = {key for key, size in sizes.items() if there.get(key) == size and not may_change(key)}
    done.add(RUN_FILE)
    for _ in range(_MOST_ROUNDS):
        new = {key: size for key, size in sizes.items() if key not in done}
        if not new:
            break
        _put_all(store, folder, new, on_stored)
        done |= new.keys()
        sizes = _files(folder)
    store.put(folder / RUN_FILE, f"{run}/{RUN_FILE}")
    return is_known


def _put_all(
    store: ObjectStore, folder: Path, sizes: Mapping[str, int], on_stored: OnStored
) -> None:
    """Store files of a run; those that the index has merged meanwhile are left out."""
    total, done, stop = sum(sizes.values()), 0, threading.Event()

    def put(key: str) -> int:
        if not stop.is_set():
            with suppress(FileNotFoundError):
                store.put(folder / key, f"{folder.name}/{key}")
        return sizes[key]

    with ThreadPoolExecutor(_PUTS, "upload") as threads:
        try:
            for num_bytes in threads.map(put, sizes):
                done += num_bytes
                on_stored(done, total)
        finally:
            stop.set()


def _files(folder: Path) -> dict[str, int]:
    """Bytes of each file of a run, by its key; raises UserError where it is no run."""
    sizes = {}
    for path in folder.rglob("*"):
        key = str(path.relative_to(folder))
        if is_of_run(key):
            with suppress(FileNotFoundError):  # merged, or replaced
                sizes[key] = _size(path)
    if RUN_FILE not in sizes:
        raise UserError(f"{folder} has no {RUN_FILE}, so it is not a run folder; give one that has")
    return sizes


def _size(path: Path) -> int:
    try:
        return plain_file(path).st_size
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be stored: {error}; replace it by a regular file") from None
