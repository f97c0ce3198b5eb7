"""A hub over a bucket: its runs are listed, fetched when they are asked for, and followed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.analysis.run_board import board_of
from app.pages import fleet, runs
from app.runs.bucket_hub import BucketHub
from app.runs.hub import Awaited
from app.server import make_app
from app.settings import Settings
from app.view_state import View
from ingest.errors import UserError
from ingest.object_store import following
from ingest.object_store.mirror import Mirror
from tests.app.pages_in_process import text_of
from tests.app.server.asgi import Client
from tests.ingest.object_store.buckets import bucket_at
from tests.runs_builder import RunBuilder, two_rank_run
from tests.waiting import wait_until


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """The bucket's folder of runs, with two."""
    two_rank_run(tmp_path / "bucket/runs/second")
    return tmp_path / "bucket/runs"


@pytest.fixture
def growing(tmp_path: Path) -> RunBuilder:
    """What writes the first of them."""
    return two_rank_run(tmp_path / "bucket/runs/first")


@pytest.fixture
def hub(
    tmp_path: Path, bucket: Path, growing: RunBuilder, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BucketHub]:
    monkeypatch.setattr(following, "LOOK_EVERY_S", 0.1)
    with (
        Mirror(bucket_at(tmp_path / "bucket"), tmp_path / "cache", 1e9) as mirror,
        closing(BucketHub(mirror)) as hub,
    ):
        yield hub
        board_of(hub).close()


def fetched(hub: BucketHub, name: str) -> bool:
    """Whether a run can be asked by now."""
    try:
        hub.run(name)
    except Awaited:
        return False
    return True


def states(hub: BucketHub) -> dict[str, str]:
    return {row.name: row.state for row in board_of(hub).rows()}


def test_a_run_is_fetched_when_it_is_asked_for(hub: BucketHub) -> None:
    assert set(hub.names()) == {"first", "second"}
    assert states(hub) == {"first": "stored", "second": "stored"}
    wait_until(lambda: fetched(hub, "first"))
    assert len(hub.run("first").ask("steps").to_pylist()) == 3
    here = ("running", "silent", "lost")  # by how busy this machine is
    wait_until(lambda: states(hub)["first"] in here)
    assert states(hub)["second"] == "stored"
    assert [folder.name for folder in hub.folders()] == ["first"]


def test_a_run_that_grows_in_the_bucket_grows_here(hub: BucketHub, growing: RunBuilder) -> None:
    wait_until(lambda: fetched(hub, "first"))
    growing.step(0, 3, 300, 390)
    growing.publish()
    wait_until(lambda: len(hub.run("first").ask("steps").to_pylist()) == 4)


def test_what_is_wrong_with_the_bucket_is_said(hub: BucketHub, bucket: Path) -> None:
    with (bucket / "first/layout.json").open("wb") as file:
        file.truncate(65 << 20)
    hub.mirror.use("first")
    wait_until(lambda: hub.mirror.problem("first"))
    with pytest.raises(UserError, match=r"first cannot be fetched: .* no file of a run"):
        hub.run("first")
    assert any("no file of a run" in text for text in hub.problems())
    with pytest.raises(UserError, match="there is no run 'third' here"):
        hub.run("third")


def test_nothing_is_written_into_the_runs_of_a_bucket(hub: BucketHub) -> None:
    client = Client(make_app(hub, settings=Settings()))
    files = json.dumps({"files": [{"name": "trace.json", "size": 1}]}).encode()
    for answer in (
        client.post("/api/uploads", files, **{"tus-resumable": "1.0.0"}),
        client.post("/api/run/first/layout", b'{"sizes": {"tp": 2}}'),
        client.request("DELETE", "/api/run/first/layout"),
    ):
        assert answer.status == 400
        assert "This server only reads the runs in s3://runs" in answer.json()["error"]
    assert "rankscope import FILE --into s3://runs" in text_of(runs.render(hub, View()))
    assert "until somebody opens them: 2" in text_of(fleet.render(hub, View()))
