"""The list of runs in a bucket."""

from __future__ import annotations

import os
from pathlib import Path

from ingest.object_store.bucket_runs import BucketRuns
from ingest.object_store.mirrored_run import MirroredRun
from ingest.object_store.object_store import StoredObject
from ingest.run_folder.run_files import is_run_folder
from tests.ingest.object_store.buckets import bucket_at, look
from tests.runs_builder import two_rank_run


def test_folders_with_a_run_json_are_runs_newest_first(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, changed_s in (("old", 1), ("new", 2), (".hidden", 3)):
        (runs / name).mkdir(parents=True)
        (runs / name / "run.json").write_text("{}")
        os.utime(runs / name / "run.json", (changed_s, changed_s))
    (runs / "half").mkdir()
    (runs / "half/segment").write_text("x")
    bucket = BucketRuns(bucket_at(tmp_path))
    bucket.look()
    assert bucket.names() == ["new", "old"]
    (runs / "half/run.json").write_text("{}")
    (runs / "old/run.json").unlink()
    (runs / "old").rmdir()
    bucket.look()
    assert bucket.names() == ["half", "new"]
    assert bucket.is_gone("old")
    assert not bucket.is_gone("half")


def test_a_folder_that_never_has_a_run_json_is_asked_more_and_more_seldom(tmp_path: Path) -> None:
    (tmp_path / "runs/checkpoints/step1000").mkdir(parents=True)
    store, num_asked = bucket_at(tmp_path), []
    heads = store.heads

    def counted(keys: list[str]) -> list[StoredObject | None]:
        num_asked.append(keys.count("checkpoints/run.json"))
        return heads(keys)

    store.heads = counted
    bucket = BucketRuns(store)
    for num_looks, most in ((10, 8), (90, 12), (1900, 20), (1000, 4)):
        num_asked.clear()
        for _ in range(num_looks):
            bucket.look()
        assert 0 < sum(num_asked) <= most
    (tmp_path / "runs/checkpoints/run.json").write_text("{}")
    for _ in range(360):
        bucket.look()
    assert bucket.names() == ["checkpoints"]


def test_an_address_may_be_that_of_one_run(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "runs/mine")
    store = bucket_at(tmp_path, "runs/mine")
    bucket = BucketRuns(store)
    bucket.look()
    assert bucket.names() == ["mine"]
    look(MirroredRun(store, bucket.prefix("mine"), tmp_path / "here/mine"))
    assert is_run_folder(tmp_path / "here/mine")


def test_a_bucket_without_runs_has_none(tmp_path: Path) -> None:
    bucket = BucketRuns(bucket_at(tmp_path, "runs/nothing"))
    bucket.look()
    assert bucket.names() == []
