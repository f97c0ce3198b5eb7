"""The thread that indexes a run while it grows: soon, in spite of errors, and not at rest."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from app.analysis.live_status import live_status
from app.runs import index_follower
from app.runs.hub import Hub
from app.runs.index_follower import Follower, Passes
from app.runs.open_run import OpenRun
from ingest.index import compaction
from ingest.index.indexer import Indexer
from ingest.index.snapshots import OwnerLock, index_folder
from ingest.run import Run
from sample_traces import RECORDED
from tests.app.runs.growing import WAIT_S, last_step, more
from tests.runs_builder import remove_run, two_rank_run
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_follower, "PASS_GAP_S", 0.05)
    monkeypatch.setattr(index_follower, "OWN_EVERY_S", 0.1)


def test_listeners_are_notified_of_a_new_file_before_a_pass_is_due(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        index_follower, "PASS_EVERY_S", 1e6
    )  # benchmarks/live_latency.py measures how soon
    run = two_rank_run(tmp_path / "job")
    notified = threading.Event()
    hub.run("job")
    wait_until(lambda: hub.passes.number >= 2)  # the first look and the merge after it are over
    end = hub.listen(lambda name, _version: notified.set() if name == "job" else None)
    for step in range(3, 5):
        notified.clear()
        more(run, step)
        assert notified.wait(WAIT_S)
        wait_until(lambda step=step: last_step(hub, "job") == step)
        time.sleep(0.2)
    end()


def test_a_run_without_a_quiet_moment_is_merged_too(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_follower, "MERGE_EVERY_S", 0.3)
    monkeypatch.setattr(compaction, "FIRST_FAN_IN", 8)
    run = two_rank_run(tmp_path / "job")
    hub.run("job")
    begun_s, step = time.monotonic(), 3
    while not list((run.folder / "compacted").glob("*.parquet")):
        more(run, step)
        step += 1
        time.sleep(0.02)  # far below the time between two looks: each sees something new
        assert time.monotonic() - begun_s < WAIT_S
    more(run, step)
    assert hub.catch_up("job", WAIT_S)
    rows = hub.run("job").ask("steps", step_min=3)
    assert rows.column("step").to_pylist() == list(range(3, step + 1))


def test_catching_up_means_everything_written_before(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job")
    for step in range(3, 8):
        more(run, step)
        assert hub.catch_up("job", WAIT_S)
        assert hub.run("job").ask("steps", step_min=step).num_rows == 1


def test_who_waits_for_a_run_goes_on_once_its_first_news_are_counted(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, drop_outdated = threading.Event(), hub.cache.drop_outdated

    def late(opened: OpenRun) -> None:  # called right after the version went up
        time.sleep(0.2)
        counted.set()
        drop_outdated(opened)

    monkeypatch.setattr(hub.cache, "drop_outdated", late)
    shutil.copytree(RECORDED / "healthy", tmp_path / "healthy")
    hub.run("healthy")
    assert counted.is_set()


def test_an_error_becomes_a_problem_and_is_got_over(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_follower, "RETRY_S", 0.05)
    run = two_rank_run(tmp_path / "job")
    hub.run("job")
    refresh = Indexer.refresh

    def failing(self: Indexer, *how: object) -> object:
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(Indexer, "refresh", failing)
    more(run, 3)
    wait_until(lambda: hub.problems() == ["job: RuntimeError: the disk is on fire"])
    assert live_status(hub, "job").problem == "RuntimeError: the disk is on fire"
    assert last_step(hub, "job") == 2  # what was published is still shown
    assert hub.passes.failed > 0
    monkeypatch.setattr(Indexer, "refresh", refresh)
    wait_until(lambda: last_step(hub, "job") == 3)
    assert hub.problems() == []


def test_the_snapshots_of_another_owner_are_followed(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job")
    with Indexer(tmp_path / "job") as other:
        other.refresh()
        assert last_step(hub, "job") == 2
        more(run, 3)
        other.refresh()
        wait_until(lambda: last_step(hub, "job") == 3)
        assert hub.passes.number == 0
    more(run, 4)
    wait_until(lambda: last_step(hub, "job") == 4)  # the other has ended: the hub indexes by itself
    assert hub.passes.number > 0


def test_a_finished_run_is_at_rest_and_its_index_free(hub: Hub, tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "healthy", tmp_path / "healthy")
    hub.run("healthy")
    assert live_status(hub, "healthy").state == "finished"

    def is_free() -> bool:
        with OwnerLock(index_folder(tmp_path / "healthy")) as lock:
            return lock.acquire()

    wait_until(is_free)
    passes = hub.passes.number
    time.sleep(0.5)
    assert hub.passes.number == passes


def test_a_finished_run_that_starts_again_is_followed_again(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(index_follower.REST_S, "finished", 0.2)
    run = two_rank_run(tmp_path / "job")
    run.rank_files(end={"ts_ns": 5, "status": "finished", "error": None})
    hub.run("job")
    wait_until(lambda: live_status(hub, "job").state == "finished")
    run.step(0, 3, 300, 400, attempt=1)
    run.rank_files(attempt=1)
    run.publish()
    wait_until(lambda: live_status(hub, "job").state == "silent")  # rank 1 has not reported again
    assert hub.run("job").newest_attempt == 1


def test_a_follower_says_when_it_is_ready_when_asked_and_when_the_run_is_gone(
    tmp_path: Path,
) -> None:
    folder, news = two_rank_run(tmp_path / "job").folder, []
    follower = Follower(Run(folder), news.append, Passes())
    assert not follower.has_snapshot
    follower.start()
    assert follower.wait_ready(WAIT_S)
    assert follower.has_snapshot
    assert follower.catch_up(WAIT_S)
    assert (set(news), follower.problem) == ({True}, None)
    follower.announce_again()
    wait_until(lambda: False in news)
    remove_run(folder)
    assert follower.join(WAIT_S)
    assert follower.gone
    assert not follower.catch_up(WAIT_S)
