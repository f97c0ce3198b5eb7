"""Content of runs that nobody opens goes in time, too."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event, enumerate

import pytest

from app.runs import retention_thread
from app.runs.hub import Hub
from app.runs.retention_thread import content_kept, let_old_go
from ingest.index.indexer import Indexer
from ingest.index.retention import Keep, content_files
from ingest.run import open_run
from tests.frame_runs import content_run, kept
from tests.runs_builder import two_rank_run


def test_a_server_looks_after_runs_that_nobody_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = content_run(tmp_path / "runs" / "job").folder
    two_rank_run(tmp_path / "runs" / "plain")
    monkeypatch.setattr(retention_thread, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("ingest.index.compaction.GRACE_S", 0.0)
    hub = Hub(tmp_path / "runs", keep=Keep.parse("30d"))
    try:
        with retention_thread.content_kept(hub):
            deadline_s = time.monotonic() + 60
            while len(content_files(folder)) > 2 and time.monotonic() < deadline_s:
                Event().wait(0.02)
        assert len(content_files(folder)) == 2
        assert hub.num_open == 0
        assert not (tmp_path / "runs" / "plain" / "index").exists()
        assert kept(hub.run("job")) == [20, 1]
    finally:
        hub.close()


def test_of_one_run_what_is_too_old_goes(tmp_path: Path) -> None:
    folder = content_run(tmp_path / "run").folder
    let_old_go(folder, Keep.parse("50d"))
    assert not (folder / "index").exists(), "nothing is due"
    let_old_go(folder, Keep.parse("10d"))
    assert len(content_files(folder)) == 3, "readers get time"
    with open_run(folder) as run:
        assert kept(run) == [1]


def test_another_owner_of_the_index_is_left_alone(tmp_path: Path) -> None:
    folder = content_run(tmp_path / "run").folder
    with Indexer(folder) as owner:
        owner.refresh()
        let_old_go(folder, Keep.parse("10d"))
    with open_run(folder) as run:
        assert kept(run) == [40, 20, 1]
    let_old_go(tmp_path / "gone", Keep.parse("10d"))


def test_without_bounds_no_thread_is_started(hub: Hub) -> None:
    with content_kept(hub):
        assert "content" not in {thread.name for thread in enumerate()}
