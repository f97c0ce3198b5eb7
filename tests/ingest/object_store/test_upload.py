"""Storing a run folder in a bucket."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.index.indexer import Indexer
from ingest.object_store import upload
from ingest.object_store.object_store import ObjectStore, StoreError
from ingest.object_store.upload import RunUpload, stored_as, upload_run
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


def interrupted(store: ObjectStore, run: Path) -> None:
    """An upload that has stored files with data, and no run.json."""

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upload_run(store, run, interrupt)


def test_what_an_interrupted_upload_left_is_no_run_and_is_completed(
    tmp_path: Path, there: Path
) -> None:
    two_rank_run(tmp_path / "r-abc")
    store = bucket_at(tmp_path / "bucket")
    interrupted(store, tmp_path / "r-abc")
    assert keys(there)
    assert stored_as(store, "r-abc") is None
    upload_run(store, tmp_path / "r-abc", lambda *_: None)
    assert keys(there) == keys(tmp_path / "r-abc") - INDEX


def test_what_an_interrupted_upload_of_another_run_left_is_not_completed(
    tmp_path: Path, there: Path
) -> None:
    store = bucket_at(tmp_path / "bucket")
    interrupted(store, two_rank_run(tmp_path / "r-abc").folder)
    more = there / "segments/steps-0000-00000-00000099.parquet"
    more.write_text("of the interrupted one")
    before = keys(there)
    with pytest.raises(UserError, match=r"has segments/.*99.parquet, which .* no run\.json"):
        upload_run(store, tmp_path / "r-abc", lambda *_: None)
    assert keys(there) == before


def test_what_others_have_below_the_prefix_of_a_run_stays(tmp_path: Path, there: Path) -> None:
    run, store = two_rank_run(tmp_path / "r-abc").folder, bucket_at(tmp_path / "bucket")
    (there / "index").mkdir()
    foreign = {"config.json", "job.log", "index/lock", "ranks/0000-00009.json", "step1000.pt"}
    for key in foreign:
        (there / key).write_text("precious")
    for is_known in (False, True):
        assert upload_run(store, run, lambda *_: None) == is_known
        assert keys(there) == (keys(run) - INDEX) | foreign


def test_two_runs_of_one_name_are_not_mixed(tmp_path: Path, there: Path) -> None:
    store = bucket_at(tmp_path / "bucket")
    upload_run(store, two_rank_run(tmp_path / "r-abc").folder, lambda *_: None)
    before = {key: (there / key).read_bytes() for key in keys(there)}
    other = two_rank_run(tmp_path / "other/r-abc", num_steps=5).folder
    with pytest.raises(UserError, match="s3://runs/r-abc has another segments/"):
        upload_run(store, other, lambda *_: None)
    info = json.loads((other / "run.json").read_text())
    (other / "run.json").write_text(json.dumps(info | {"created_ns": info["created_ns"] + 1}))
    with pytest.raises(UserError, match="s3://runs/r-abc is another run of the same name"):
        upload_run(store, other, lambda *_: None)
    assert before == {key: (there / key).read_bytes() for key in keys(there)}
    (there / "run.json").write_text("{")
    with pytest.raises(UserError, match=r"s3://runs/r-abc/run\.json cannot be read as JSON"):
        upload_run(store, other, lambda *_: None)


def test_the_parts_of_two_hosts_do_not_delete_each_other(tmp_path: Path, there: Path) -> None:
    store = bucket_at(tmp_path / "bucket")
    mine, yours = two_rank_run(tmp_path / "r-abc").folder, two_rank_run(tmp_path / "b/r-abc").folder
    for folder, rank in ((mine, 0), (yours, 1)):
        for path in folder.glob(f"segments/*-0000{rank}-*"):
            path.unlink()
    upload_run(store, mine, lambda *_: None)
    before = keys(there)
    with pytest.raises(UserError, match="another host has stored its part of the run there"):
        upload_run(store, yours, lambda *_: None)
    assert keys(there) == before


def test_files_are_stored_as_they_were_written(
    tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_PUTS", 1)
    run, store, stored = two_rank_run(tmp_path / "r-abc").folder, bucket_at(tmp_path / "bucket"), []
    put = store.put

    def noted(file: Path, key: str) -> None:
        stored.append(file.relative_to(run))
        put(file, key)

    store.put = noted
    paths = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "run.json")
    for seconds, path in enumerate(reversed(paths)):
        os.utime(path, (seconds, seconds))
    with RunUpload(store, run) as growing:
        assert growing.look(lambda *_: None) == len(paths) + 1
        assert growing.look(lambda *_: None) == 0
    assert stored == [*(path.relative_to(run) for path in reversed(paths)), Path("run.json")]


def test_a_file_that_goes_while_the_folder_is_listed_is_none_of_the_run(
    tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, look_at = two_rank_run(tmp_path / "r-abc").folder, upload.plain_file
    gone = run / "ranks/0000-00001.json"

    def removed_before(path: Path) -> os.stat_result:
        if path == gone:
            path.unlink()
        return look_at(path)

    monkeypatch.setattr(upload, "plain_file", removed_before)
    upload_run(bucket_at(tmp_path / "bucket"), run, lambda *_: None)
    assert keys(there) == keys(run) - INDEX


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


def test_a_file_of_which_only_the_answer_was_lost_is_not_stored_again(
    tmp_path: Path, there: Path
) -> None:
    run, store, stored = two_rank_run(tmp_path / "r-abc").folder, bucket_at(tmp_path / "bucket"), []
    put = store.put

    def answer_lost(file: Path, key: str) -> None:
        put(file, key)
        stored.append(file)
        if file.parent.name == "segments":
            raise StoreError("no answer")

    store.put = answer_lost
    with RunUpload(store, run) as growing:
        for _ in range(20):
            with suppress(StoreError):
                growing.look(lambda *_: None)
    assert keys(there) == keys(run) - INDEX
    segments = [path for path in stored if path.parent.name == "segments"]
    assert sorted(segments) == sorted((run / "segments").iterdir())


def test_nothing_is_stored_of_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    store = bucket_at(tmp_path / "bucket")
    for file, reason in (
        (tmp_path / "gone", "No such file"),
        (Path("/proc/self/mem"), "Input/output error"),
    ):
        with pytest.raises(UserError, match=f"{file} cannot be read: .*{reason}"):
            store.put(file, "object")
    assert store.objects("") == []


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
