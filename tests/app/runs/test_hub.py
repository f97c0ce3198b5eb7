"""The runs of a server: noticed, opened, announced, closed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from app.analysis.live_status import live_status
from app.runs.hub import ALL_RUNS, Awaited, Hub
from ingest.errors import UserError
from ingest.index.indexer import Indexer
from tests.app.runs.growing import WAIT_S, last_step, more
from tests.runs_builder import remove_run, two_rank_run
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


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


def test_listeners_are_notified_of_runs_that_come_and_go(hub: Hub, tmp_path: Path) -> None:
    notified: list[str] = []
    hub.listen(lambda name, _version: notified.append(name))
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
