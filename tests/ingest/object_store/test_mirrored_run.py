"""A run of a bucket as a run folder: what gets there, when, and after what crash."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.index.indexer import Indexer
from ingest.object_store import mirrored_run
from ingest.object_store.journal import Damaged
from ingest.object_store.mirrored_run import MIRROR, MirroredRun, Stopped
from ingest.object_store.object_store import StoreError
from ingest.run import open_run
from ingest.run_folder.run_files import is_run_folder
from tests.ingest.object_store.buckets import bucket_at, look, merged
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A run in the bucket."""
    bucket = tmp_path / "bucket"
    two_rank_run(bucket / "runs/r").publish()
    return bucket / "runs/r"


@pytest.fixture
def mirrored(tmp_path: Path, stored: Path) -> MirroredRun:
    return MirroredRun(bucket_at(tmp_path / "bucket"), "r", tmp_path / "here/r")


def files_of(folder: Path) -> set[str]:
    """Files of a run folder, but for those of the mirror and the index."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in paths if path.parts[0] not in (MIRROR, "index")}


def test_a_look_fetches_the_run_and_the_next_one_only_what_is_new(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    here = tmp_path / "here/r"
    first = look(mirrored)
    assert first.num_new == first.num_listed == len(files_of(stored))
    assert files_of(here) == files_of(stored)
    assert look(mirrored).num_new == 0
    source = next((stored / "segments").glob("steps-*"))
    shutil.copy(source, source.with_name("steps-0000-00000-00000007.parquet"))
    assert look(mirrored).num_new == 1
    assert files_of(here) == files_of(stored)


def test_segments_that_the_index_has_merged_are_not_fetched_again(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    here = tmp_path / "here/r"
    look(mirrored)
    with open_run(here) as run:
        before = run.ask("steps").to_pylist()
    for segment in (here / "segments").iterdir():
        segment.unlink()
    again = MirroredRun(bucket_at(tmp_path / "bucket"), "r", here)
    assert look(again).num_new == 0
    assert before
    assert not list((here / "segments").iterdir())


def test_a_rank_file_that_was_written_again_is_fetched_again(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    look(mirrored)
    path = stored / "ranks/0000-00000.json"
    info = json.loads(path.read_text()) | {"host": "another-host"}
    path.write_text(json.dumps(info))
    assert look(mirrored).num_new == 1
    assert json.loads((tmp_path / "here/r/ranks/0000-00000.json").read_text()) == info


def test_names_that_no_run_has_stay_in_the_bucket(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    for name in ("notes.txt", "segments/x.sh", "ranks/x.json", "index/i.duckdb", "job-secret"):
        (stored / name).parent.mkdir(exist_ok=True)
        (stored / name).write_text("x")
    look(mirrored)
    extra = files_of(stored) - files_of(tmp_path / "here/r")
    assert extra == {"notes.txt", "segments/x.sh", "ranks/x.json", "job-secret"}
    assert not (tmp_path / "here/r/index").exists()


def test_it_is_no_run_folder_before_all_of_it_is_there(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    here, seen, stop = tmp_path / "here/r", [], threading.Event()

    def on_fetched(num_fetched: int, num_new: int) -> None:
        seen.append((is_run_folder(here), num_fetched, num_new))

    mirrored.look(lambda _: None, on_fetched, stop)
    num_files = len(files_of(stored))
    assert seen == [(False, num_files - 1, num_files), (True, num_files, num_files)]
    stop.set()
    (stored / "layout.json").write_text("{}")
    with pytest.raises(Stopped):
        mirrored.look(lambda _: None, on_fetched, stop)


def test_after_a_crash_what_was_noted_gets_its_name_and_the_rest_is_fetched_again(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    here = tmp_path / "here/r"
    look(mirrored)
    names = sorted(path.name for path in (here / "segments").iterdir())
    staged = here / MIRROR / "staged/segments"
    (here / "segments" / names[0]).rename(staged / names[0])  # killed before it was renamed
    (staged / "steps-0000-00000-00000009.parquet").write_text("noted nowhere")
    (staged / ".steps-0000-00000-00000010.parquet.part").write_text("half")
    journal = here / MIRROR / "objects.jsonl"
    journal.write_text(journal.read_text() + '["segments/steps-0000-')  # killed while it noted
    assert look(MirroredRun(bucket_at(tmp_path / "bucket"), "r", here)).num_new == 0
    assert files_of(here) == files_of(stored)
    assert not list(staged.iterdir())
    assert journal.read_text().endswith("]\n")


def test_where_one_object_fails_the_others_are_not_fetched_again(
    tmp_path: Path, stored: Path
) -> None:
    store, asked = bucket_at(tmp_path / "bucket"), []
    fetch = store.fetch

    def fails_once(key: str, num_bytes: int, into: Path) -> None:
        asked.append(key)
        if "steps-0000-00001" in key and asked.count(key) == 1:
            raise StoreError("it answers that there are too many requests")
        fetch(key, num_bytes, into)

    store.fetch = fails_once
    mirrored = MirroredRun(store, "r", tmp_path / "here/r")
    with pytest.raises(StoreError):
        look(mirrored)
    assert not is_run_folder(tmp_path / "here/r")
    assert look(mirrored).is_whole
    assert files_of(tmp_path / "here/r") == files_of(stored)
    assert len(asked) == len(files_of(stored)) + 1


def test_a_damaged_journal_is_said(tmp_path: Path, stored: Path, mirrored: MirroredRun) -> None:
    look(mirrored)
    journal = tmp_path / "here/r" / MIRROR / "objects.jsonl"
    journal.write_text("nonsense\n")
    with pytest.raises(Damaged):
        look(MirroredRun(bucket_at(tmp_path / "bucket"), "r", tmp_path / "here/r"))
    journal.unlink()
    with pytest.raises(Damaged):
        look(mirrored)


def test_what_cannot_be_mirrored_is_a_sentence(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    (stored / "run.json").rename(stored / "gone")
    with pytest.raises(UserError, match=r"s3://runs/r has no run\.json"):
        look(mirrored)
    (stored / "gone").rename(stored / "run.json")
    with (stored / "layout.json").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(UserError, match="so it is no file of a run"):
        look(mirrored)
    assert not files_of(tmp_path / "here/r")


def test_what_a_merged_file_has_is_not_fetched_whenever_it_is_listed(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    late = next((stored / "segments").glob("steps-*"))
    merged(stored)
    content = late.read_bytes()
    late.unlink()
    look(mirrored)
    here = tmp_path / "here/r"
    assert files_of(here / "compacted") == files_of(stored / "compacted")
    assert not list((here / "segments").glob("steps-*"))
    late.write_bytes(content)
    assert look(mirrored).num_new == 0
    with open_run(here) as run:
        assert len(run.ask("steps").to_pylist()) == 3


def test_where_files_are_merged_in_the_bucket_all_is_fetched_again(
    stored: Path, mirrored: MirroredRun
) -> None:
    look(mirrored)
    merged(stored)
    with pytest.raises(Damaged):
        look(mirrored)


def test_where_another_run_is_stored_under_the_name_all_is_fetched_again(
    tmp_path: Path, stored: Path, mirrored: MirroredRun
) -> None:
    look(mirrored)
    segment = next((stored / "segments").glob("steps-*"))
    content = segment.read_bytes()
    segment.unlink()
    assert look(mirrored).num_new == 0  # it may be listed late
    (stored / "run.json").write_text((stored / "run.json").read_text() + " ")
    with pytest.raises(Damaged):
        look(mirrored)
    segment.write_bytes(content + b"x")
    with pytest.raises(Damaged):
        look(MirroredRun(bucket_at(tmp_path / "bucket"), "r", tmp_path / "here/r"))


def test_files_get_their_names_as_they_were_stored_so_that_no_rank_seems_silent(
    stored: Path, mirrored: MirroredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrored_run, "_BATCH", 1)
    first, *rest = sorted((stored / "segments").iterdir(), reverse=True)
    for path in rest:
        os.utime(path, (2e9, 2e9))
    for path in (first, *(stored / "ranks").iterdir()):
        os.utime(path, (1e9, 1e9))
    seen: list[set[str]] = []

    def on_fetched(_num_fetched: int, _num_new: int) -> None:
        seen.append(files_of(tmp_path / "here/r/segments"))

    mirrored.look(lambda _: None, on_fetched, threading.Event())
    assert next(names for names in seen if names) == {first.name}


def test_the_end_of_a_rank_is_taken_in_though_it_was_stored_before_the_last_look(
    tmp_path: Path,
) -> None:
    bucket, here = tmp_path / "bucket", tmp_path / "here/r"
    builder = two_rank_run(bucket / "runs/r")
    mirrored = MirroredRun(bucket_at(bucket), "r", here)
    look(mirrored)
    with open_run(here) as run:
        assert run.state != "finished"
    builder.rank_files(end={"ts_ns": 1, "status": "finished", "error": ""})
    for path in (builder.folder / "ranks").iterdir():
        os.utime(path, (1e9, 1e9))
    look(mirrored)
    with open_run(here) as run:
        assert run.state == "finished"


def test_a_growing_run_is_indexed_as_it_comes(tmp_path: Path) -> None:
    bucket, here = tmp_path / "bucket", tmp_path / "here/r"
    builder = RunBuilder(bucket / "runs/r", world_size=1)
    builder.rank_files()
    mirrored = MirroredRun(bucket_at(bucket), "r", here)
    for step in range(3):
        builder.step(0, step, step * 100, step * 100 + 90)
        builder.publish()
        look(mirrored)
        with Indexer(here) as indexer:
            indexer.refresh()
        with open_run(here) as run:
            assert [row["step"] for row in run.ask("steps").to_pylist()] == list(range(step + 1))
