"""Storing a run folder in a bucket as it grows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import app.commands.stored_folder
from app.cli import main
from app.commands.stored_folder import has_ended, store_run_folder
from ingest.object_store.object_store import ObjectStore, StoreError
from tests.ingest.object_store.buckets import bucket_at
from tests.runs_builder import RunBuilder
from tests.waiting import wait_until

END = {"ts_ns": 1, "status": "finished", "error": ""}


def test_a_run_is_followed_until_all_its_ranks_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.commands.stored_folder, "FOLLOW_S", 0.01)
    monkeypatch.setattr(app.commands.stored_folder, "_RETRY_S", 0.01)
    builder = RunBuilder(tmp_path / "r", world_size=1)
    builder.rank_files()
    there = tmp_path / "bucket/runs/r"
    for name in ("segments", "ranks"):
        (there / name).mkdir(parents=True)
    store, known = Failing(bucket_at(tmp_path / "bucket")), []
    thread = threading.Thread(
        target=lambda: known.append(store_run_folder(store, builder.folder, follow=True))
    )
    thread.start()
    for step in range(3):
        builder.step(0, step, step * 100, step * 100 + 90)
        builder.publish()
        wait_until(lambda last=step: len(list((there / "segments").iterdir())) == last + 1)
    builder.rank_files(end=END)
    wait_until(lambda: not thread.is_alive())
    assert known == [False]
    rank_file = "ranks/0000-00000.json"
    assert (there / rank_file).read_bytes() == (builder.folder / rank_file).read_bytes()


class Failing(ObjectStore):
    """A bucket in which every third file cannot be stored at first."""

    def __init__(self, store: ObjectStore) -> None:
        vars(self).update(vars(store))
        self._num_puts = 0

    def put(self, file: Path, key: str) -> None:
        self._num_puts += 1
        if self._num_puts % 3 == 0:
            raise StoreError("it answers that there are too many requests")
        super().put(file, key)


def test_a_run_has_ended_when_all_ranks_of_its_newest_attempt_have(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "r", world_size=2)
    assert not has_ended(builder.folder)
    builder.rank_files(end=END)
    assert has_ended(builder.folder)
    builder.rank_files(attempt=1)
    assert not has_ended(builder.folder)
    (builder.folder / "ranks/0001-00001.json").unlink()
    builder.rank_files(attempt=1, end=END)
    assert has_ended(builder.folder)
    imported = RunBuilder(tmp_path / "imported", source="kineto")
    assert has_ended(imported.folder)


def test_only_a_run_folder_can_be_followed_and_only_into_a_bucket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(tmp_path), "--follow", "--into", str(tmp_path)]) == 2
    assert "--follow is for one run folder with --into s3://" in capsys.readouterr().err
