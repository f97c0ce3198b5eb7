"""Storing a run folder in a bucket as it grows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.cli import main
from app.commands import stored_folder
from app.commands.stored_folder import has_finished, store_run_folder
from ingest.object_store.object_store import ObjectStore, StoreError
from ingest.run_folder.rank_files import RankFiles
from tests.ingest.object_store.buckets import bucket_at
from tests.runs_builder import RunBuilder
from tests.waiting import wait_until

END = {"ts_ns": 1, "status": "finished", "error": ""}


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOLLOW_S", "_RETRY_S", "_SETTLE_S"):
        monkeypatch.setattr(stored_folder, name, 0.01)


@pytest.fixture
def builder(tmp_path: Path) -> RunBuilder:
    """What writes the run."""
    builder = RunBuilder(tmp_path / "r", world_size=1)
    builder.rank_files()
    return builder


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Where the objects of the run go; a bucket would need no folders."""
    for name in ("segments", "ranks"):
        (tmp_path / "bucket/runs/r" / name).mkdir(parents=True)
    return tmp_path / "bucket/runs/r"


def test_a_run_is_followed_until_all_its_ranks_have_finished(
    tmp_path: Path, builder: RunBuilder, there: Path
) -> None:
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


def test_rows_that_are_written_after_the_end_are_stored_too(
    tmp_path: Path, builder: RunBuilder, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_folder, "_SETTLE_S", 0.0)
    builder.rank_files(end=END)
    store = bucket_at(tmp_path / "bucket")
    put, one_at_a_time = store.put, threading.Lock()

    def put_while_the_job_writes(file: Path, key: str) -> None:
        put(file, key)
        with one_at_a_time:
            if len(list((builder.folder / "segments").iterdir())) < 3:
                builder.step(0, 0, 0, 90)
                builder.publish()

    store.put = put_while_the_job_writes
    store_run_folder(store, builder.folder, follow=True)
    assert len(list((there / "segments").iterdir())) == 3


def test_a_run_that_failed_is_followed_until_nothing_is_written_any_more(
    tmp_path: Path,
    builder: RunBuilder,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stored_folder, "_QUIET_S", 0.0)
    builder.rank_files(end=END | {"status": "failed"})
    assert not store_run_folder(bucket_at(tmp_path / "bucket"), builder.folder, follow=True)
    assert (there / "run.json").exists()
    assert "not all ranks have finished: the run is stored as it is" in capsys.readouterr().err


def test_a_run_that_has_ended_does_not_wait_for_ever_for_storage_that_fails(
    tmp_path: Path, builder: RunBuilder, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_folder, "_QUIET_S", 0.0)
    builder.rank_files(end=END)
    store = bucket_at(tmp_path / "bucket")

    def refused(_file: Path, _key: str) -> None:
        raise StoreError("access is denied")

    store.put = refused
    with pytest.raises(StoreError, match="access is denied"):
        store_run_folder(store, builder.folder, follow=True)


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


def test_a_run_has_finished_when_all_ranks_of_its_newest_attempt_have(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "r", world_size=2)

    def is_over() -> bool:
        return has_finished(RankFiles(builder.folder))

    assert not is_over()
    builder.rank_files(end=END)
    assert is_over()
    builder.rank_files(attempt=1)
    assert not is_over()
    builder.rank_files(attempt=1, end=END | {"status": "failed"})
    assert not is_over()
    builder.rank_files(attempt=1, end=END)
    assert is_over()
    (builder.folder / "ranks/0001-00001.json").unlink()
    assert not is_over()
    for name, importing, is_whole in (("whole", False, True), ("half", True, False)):
        folder = RunBuilder(tmp_path / name, source="kineto", importing=importing).folder
        assert has_finished(RankFiles(folder)) == is_whole


def test_only_a_run_folder_can_be_followed_and_only_into_a_bucket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(tmp_path), "--follow", "--into", str(tmp_path)]) == 2
    assert "--follow is for one run folder with --into s3://" in capsys.readouterr().err
