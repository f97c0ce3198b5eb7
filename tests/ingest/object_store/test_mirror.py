"""The runs of a bucket on this machine: which are here, which are followed, which go."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.object_store import mirror as module
from ingest.object_store.cache import Cache
from ingest.object_store.following import Following
from ingest.object_store.mirror import Mirror
from ingest.object_store.mirrored_run import MirroredRun
from ingest.object_store.object_store import StoredObject
from ingest.run_folder.run_files import is_run_folder
from tests.ingest.object_store.buckets import bucket_at
from tests.runs_builder import two_rank_run
from tests.waiting import WAIT_S, wait_until


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        two_rank_run(tmp_path / "bucket/runs" / name)
    return tmp_path / "bucket"


def test_no_more_runs_are_followed_than_a_server_has_open(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FOLLOWED", 1)
    with Mirror(bucket_at(bucket), tmp_path / "cache", 1e9, unused_s=0.5) as mirror:
        mirror.use("first")
        mirror.use("second")
        assert "second waits: 1 runs of s3://runs are in use" in mirror.about("second")
        wait_until(lambda: mirror.is_followed("first"))
        assert not mirror.is_followed("second")
        wait_until(lambda: followed(mirror, "second"))
        mirror.use("nonsense")
        assert "nonsense" not in [path.name for path in mirror.folder.iterdir()]


def followed(mirror: Mirror, name: str) -> bool:
    """Whether a run is followed, after somebody has asked for it."""
    mirror.use(name)
    return mirror.is_followed(name)


def test_a_run_that_is_deleted_in_the_bucket_is_deleted_here(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RUNS_EVERY_S", 0.1)
    with Mirror(bucket_at(bucket), tmp_path / "cache", 1e9, unused_s=0.5) as mirror:
        wait_until(lambda: followed(mirror, "first"))
        assert is_run_folder(mirror.folder / "first")
        shutil.rmtree(bucket / "runs/first")
        wait_until(lambda: mirror.names() == ["second"])
        wait_until(lambda: not (mirror.folder / "first").exists())
        assert not mirror.problems()


def test_a_cache_in_which_a_request_goes_on_is_left_to_no_other_server(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CLOSE_S", 0.0)
    store, is_asked, may_answer = bucket_at(bucket), threading.Event(), threading.Event()
    objects = store.objects

    def slow(under: str) -> list[StoredObject]:
        is_asked.set()
        may_answer.wait()
        return objects(under)

    store.objects = slow
    with Mirror(store, tmp_path / "cache", 1e9) as mirror:
        mirror.use("first")
        is_asked.wait()
    with pytest.raises(UserError, match="another server mirrors the same bucket"):
        Mirror(bucket_at(bucket), tmp_path / "cache", 1e9)
    may_answer.set()


def test_a_run_that_cannot_be_told_is_not_fetched_anew_at_once(
    tmp_path: Path, bucket: Path
) -> None:
    cache = Cache(tmp_path / "cache", 1e9, is_in_use=lambda _: True)
    run = MirroredRun(bucket_at(bucket), "first", cache.runs / "first")
    followed = Following("first", run, cache, is_used=lambda _: False)
    followed.join(WAIT_S)
    (cache.runs / "first").mkdir()
    (cache.runs / "first/run.json").write_text("of nobody knows which run")
    assert followed._turn(0.0) >= 10
    assert not (cache.runs / "first").exists()
    followed._turn(0.0)
    assert followed.has_looked
    cache.close()


def test_what_was_fetched_is_there_for_the_next_server(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CLOSE_S", WAIT_S)
    with Mirror(bucket_at(bucket), tmp_path / "cache", 1e9) as mirror:
        wait_until(lambda: followed(mirror, "first"))
    with Mirror(bucket_at(bucket), tmp_path / "cache", 1e9) as mirror:
        assert is_run_folder(mirror.folder / "first")
        assert not mirror.is_followed("first")
