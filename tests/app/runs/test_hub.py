"""The runs of a server: noticed, followed, announced, closed; nothing ends a follower silently."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.analysis.live_status import live_status
from app.runs import index_follower
from app.runs.hub import ALL_RUNS, Awaited, Hub
from ingest.errors import UserError
from ingest.index import compaction
from ingest.index.indexer import Indexer
from ingest.index.snapshots import OwnerLock, index_folder
from sample_traces import RECORDED
from tests.runs_builder import RunBuilder, remove_run, two_rank_run
from tests.waiting import wait_until

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Once the hub is closed, which is before this ends."""
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith(("follow", "look"))] == []


def more(run: RunBuilder, step: int) -> None:
    run.step(0, step, step * 100, step * 100 + 100)
    run.publish()


def last_step(hub: Hub, name: str) -> int | None:
    hub.run(name)
    return live_status(hub, name).last_step


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


def test_answers_are_kept_until_there_is_news(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job")
    hub.run("job")
    assert hub.catch_up("job", WAIT_S)
    version = hub.version("job")
    counted: list[int] = []

    def count() -> int:
        return hub.cache.get("job", "count", lambda _run, _: counted.append(1) or len(counted))

    assert (count(), count()) == (1, 1)
    more(run, 3)
    wait_until(lambda: hub.version("job") > version)
    assert len(hub.cache) == 0  # what was true before takes no memory
    assert count() == 2


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


def test_listeners_are_notified_of_runs_that_come_and_go(hub: Hub, tmp_path: Path) -> None:
    notified: list[str] = []
    hub.listen(lambda name, _version: notified.append(name))
    time.sleep(1.5)  # the first look
    two_rank_run(tmp_path / "late")
    wait_until(lambda: ALL_RUNS in notified)
    assert hub.names() == ["late"]
    hub.run("late")
    notified.clear()
    remove_run(tmp_path / "late")
    wait_until(lambda: ALL_RUNS in notified and "late" in notified)
    with pytest.raises(UserError, match="no run 'late'"):
        hub.run("late")
    assert hub.num_open == 0
    assert not (tmp_path / "late").exists()


def test_a_run_that_came_again_under_its_name_is_another(hub: Hub, tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job", num_steps=3)
    assert last_step(hub, "job") == 2
    remove_run(tmp_path / "job")
    wait_until(lambda: hub.num_open == 0)
    two_rank_run(tmp_path / "job", num_steps=5)
    assert last_step(hub, "job") == 4


def test_a_first_index_that_takes_long_is_awaited(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh, go_on = Indexer.refresh, threading.Event()

    def slow(self: Indexer, *how: object) -> object:
        go_on.wait(WAIT_S)
        return refresh(self, *how)

    monkeypatch.setattr(Indexer, "refresh", slow)
    two_rank_run(tmp_path / "job")
    with pytest.raises(Awaited, match="indexed for the first time"):
        hub.run("job", wait_s=0.1)
    begun_s = time.monotonic()
    with pytest.raises(Awaited):
        live_status(hub, "job")
    assert time.monotonic() - begun_s < WAIT_S / 2  # no socket's thread waits
    go_on.set()
    assert hub.run("job", wait_s=WAIT_S).newest_attempt == 0


def test_an_expected_run_has_its_reason(hub: Hub, tmp_path: Path) -> None:
    hub.expect("job", "the ranks come up")
    with pytest.raises(UserError, match="the ranks come up"):
        hub.run("job")
    two_rank_run(tmp_path / "job")
    assert hub.run("job").newest_attempt == 0


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


def test_a_run_that_cannot_be_indexed_says_why(hub: Hub, tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    (tmp_path / "job" / "run.json").write_text('{"schema": "99.0"}')
    with pytest.raises(UserError, match=r"run\.json"):
        hub.run("job")


def test_a_first_pass_that_fails_says_why(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Indexer, *how: object) -> object:
        raise UserError("the disk is full")

    two_rank_run(tmp_path / "job")
    monkeypatch.setattr(Indexer, "refresh", failing)
    with pytest.raises(UserError, match="job cannot be indexed: the disk is full"):
        hub.run("job")


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


def test_the_number_of_open_runs_is_bounded(tmp_path: Path) -> None:
    for number in range(4):
        two_rank_run(tmp_path / f"job{number}")
    hub = Hub(tmp_path, most_open=2)
    try:
        for number in range(4):
            hub.run(f"job{number}")
        assert hub.num_open == 2
        held = hub.run("job2")
        hub.cache.get("job2", "x", lambda _run, _: 1)
        hub.run("job0")
        hub.run("job1")
        assert held.ask("steps").num_rows == 3  # whoever still holds it may go on asking
        assert last_step(hub, "job3") == 2  # and a closed run opens again
        wait_until(lambda: sum(t.name.startswith("follow") for t in threading.enumerate()) == 2)
    finally:
        hub.close()


def test_one_run_folder_is_served_under_its_name(tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    hub = Hub(tmp_path / "job")
    try:
        assert hub.names() == ["job"]
        assert hub.run("job").newest_attempt == 0
    finally:
        hub.close()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/etc", "../secret", "..%2fsecret", "job/../../secret", "job\0", "*"]
)
def test_names_lead_nowhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / "runs").mkdir()
    two_rank_run(tmp_path / "secret")
    two_rank_run(tmp_path / "runs" / "job")
    hub = Hub(tmp_path / "runs")
    with pytest.raises(UserError, match="there is no run"):
        hub.run(name)
    hub.close()


def test_a_link_out_of_the_folder_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    two_rank_run(tmp_path / "secret")
    two_rank_run(tmp_path / "runs" / "job")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "runs" / "again").symlink_to(tmp_path / "runs" / "job")
    hub = Hub(tmp_path / "runs")
    try:
        assert "link" not in hub.names()
        with pytest.raises(UserError, match="leads out of the folder of runs"):
            hub.run("link")
        assert hub.run("again").newest_attempt == 0
    finally:
        hub.close()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        Hub(tmp_path / "nowhere")


def test_states_are_those_of_the_store(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job")
    for end in (None, {"ts_ns": 5, "status": "finished", "error": None}):
        run.rank_files(end=end)
        hub.catch_up("job", WAIT_S)
        assert live_status(hub, "job").state == hub.run("job").state
    RunBuilder(tmp_path / "empty")
    hub.run("empty")
    assert live_status(hub, "empty").state == hub.run("empty").state == "lost"
    assert live_status(hub, "empty").last_step is None
