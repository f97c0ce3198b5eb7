"""Buckets that are folders of this machine: file systems of pyarrow are real in either case."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from ingest.index.indexer import Indexer
from ingest.object_store.mirrored_run import Look, MirroredRun
from ingest.object_store.object_store import ObjectStore


def bucket_at(folder: Path, root: str = "runs") -> ObjectStore:
    """A bucket `runs` whose objects are the files in FOLDER/runs, or a prefix of it."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    files = SubTreeFileSystem(str(folder), LocalFileSystem())
    return ObjectStore(files, root, f"s3://{root}")


def merged(run: Path) -> Path:
    """The run, with its files merged by an index; the files themselves are still there."""
    for segment in (run / "segments").iterdir():
        os.utime(segment, (1, 1))  # a run that grows no more is merged at once
    with Indexer(run) as indexer:
        assert indexer.refresh().merged_files
    return run


def look(run: MirroredRun) -> Look:
    """One look with room for everything."""
    return run.look(lambda _: None, lambda *_: None, threading.Event())
