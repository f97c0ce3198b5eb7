"""Storing a run folder in a bucket."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.index.indexer import Indexer
from ingest.object_store.upload import stored_as, upload_run
from tests.ingest.object_store.buckets import bucket_at, merged
from tests.runs_builder import two_rank_run

INDEX = {"index/lock"}


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Where the objects of the run go; a bucket would need no folders."""
    for name in ("segments", "ranks"):
        (tmp_path / "bucket/runs/r-abc" / name).mkdir(parents=True)
    return tmp_path / "bucket/runs/r-abc"


def keys(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_stored_with_run_json_last(tmp_path: Path, there: Path) -> None:
    two_rank_run(tmp_path / "r-abc")
    (tmp_path / "r-abc/notes.txt").write_text("of no run")
    seen = []

    def on_stored(done: int, total: int) -> None:
        seen.append((done, total, (there / "run.json").exists()))

    upload_run(bucket_at(tmp_path / "bucket"), tmp_path / "r-abc", on_stored)
    assert keys(there) == keys(tmp_path / "r-abc") - {"notes.txt"} - INDEX
    assert not any(is_whole for *_, is_whole in seen)
    assert seen[-1][0] == seen[-1][1]


def test_what_an_interrupted_upload_left_is_no_run_and_goes(tmp_path: Path, there: Path) -> None:
    two_rank_run(tmp_path / "r-abc")
    store = bucket_at(tmp_path / "bucket")

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upload_run(store, tmp_path / "r-abc", interrupt)
    assert keys(there)
    assert stored_as(store, "r-abc") is None
    (there / "segments/steps-0000-00000-00000099.parquet").write_text("of the interrupted one")
    upload_run(store, tmp_path / "r-abc", lambda *_: None)
    assert keys(there) == keys(tmp_path / "r-abc") - INDEX


def test_a_run_that_has_grown_is_stored_again_but_not_its_data(tmp_path: Path, there: Path) -> None:
    builder, store = two_rank_run(tmp_path / "r-abc"), bucket_at(tmp_path / "bucket")
    assert not upload_run(store, builder.folder, lambda *_: None)
    before = {path: path.stat().st_mtime_ns for path in (there / "segments").iterdir()}
    builder.step(0, 3, 300, 390)
    builder.publish()
    assert upload_run(store, builder.folder, lambda *_: None)
    assert keys(there) == keys(builder.folder) - INDEX
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_run_that_was_merged_is_stored_without_what_was_merged_and_not_over_itself(
    tmp_path: Path, there: Path
) -> None:
    run, store = two_rank_run(tmp_path / "r-abc").folder, bucket_at(tmp_path / "bucket")
    upload_run(store, run, lambda *_: None)
    merged(run)
    with pytest.raises(UserError, match="were merged since they were stored as s3://runs/r-abc"):
        upload_run(store, run, lambda *_: None)
    shutil.rmtree(there)
    (there / "compacted").mkdir(parents=True)
    for name in ("segments", "ranks"):
        (there / name).mkdir()
    upload_run(store, run, lambda *_: None)
    assert keys(there / "compacted") == keys(run / "compacted")
    assert len(keys(there / "segments")) < len(keys(run / "segments"))


def test_a_run_that_is_being_indexed_is_not_stored(tmp_path: Path, there: Path) -> None:
    run = two_rank_run(tmp_path / "r-abc").folder
    with Indexer(run), pytest.raises(UserError, match="another process is indexing"):
        upload_run(bucket_at(tmp_path / "bucket"), run, lambda *_: None)


def test_the_same_content_is_known_by_another_name(tmp_path: Path, there: Path) -> None:
    two_rank_run(tmp_path / "r-abc")
    store = bucket_at(tmp_path / "bucket")
    assert stored_as(store, "r-abc") is None
    upload_run(store, tmp_path / "r-abc", lambda *_: None)
    assert (there / "run.json").exists()
    assert stored_as(store, "yours-abc") == "r-abc"
    assert stored_as(store, "r-abd") is None


def test_what_is_no_run_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no run\.json"):
        upload_run(bucket_at(tmp_path / "bucket"), tmp_path, lambda *_: None)
