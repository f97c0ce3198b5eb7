"""What pages watch is made before the news are told; what nobody watches is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from app.runs import prefetch
from app.runs.hub import Hub
from app.runs.prefetch import Watched
from ingest.errors import UserError
from ingest.run import Run
from tests.runs_builder import RunBuilder, two_rank_run

WAIT_S = 60.0
T = TypeVar("T")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    opened = Hub(tmp_path)
    yield opened
    opened.close()


def next_version(hub: Hub, run: RunBuilder, step: int) -> int:
    """Write a step; the version with which it is told."""
    heard = threading.Event()
    before = hub.version("job")
    end = hub.listen(lambda _name, version: heard.set() if version > before else None)
    run.step(0, step, step * 100, step * 100 + 100)
    run.publish()
    assert heard.wait(WAIT_S)
    end()
    return hub.version("job")


def newest_step(run: Run) -> int:
    return int(run.index_rows("SELECT max(step) AS step FROM step_rollup")[0]["step"])


def many(hub: Hub, key: str, compute: Callable[[Run], T]) -> T:
    """As many askings as make an answer worth preparing."""
    for _ in range(prefetch.SHARED - 1):
        hub.followed("job", key, compute)
    return hub.followed("job", key, compute)


def settled(hub: Hub) -> None:
    hub.run("job")
    assert hub.catch_up("job", WAIT_S)
    time.sleep(0.3)  # the merge after the first pass


def test_a_watched_answer_is_there_when_the_news_are(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    makers: list[str] = []

    def compute(opened: Run) -> int:
        makers.append(threading.current_thread().name)
        return newest_step(opened)

    assert many(hub, "newest", compute) == 2
    told: list[object] = []
    hub.listen(lambda name, _version: told.append(hub.at_hand(name, "newest")))
    next_version(hub, run, 3)
    assert told[0] == 3
    assert makers[0] == threading.current_thread().name
    assert set(makers[1:]) == {"follow job"}
    assert hub.followed("job", "newest", compute) == 3


def test_what_it_is_made_of_is_made_anew_as_well(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)

    def compute(_run: Run) -> str:
        return f"step {hub.cached('job', 'inner', newest_step)}"

    assert many(hub, "outer", compute) == "step 2"
    next_version(hub, run, 3)
    assert hub.at_hand("job", "outer") == "step 3"


def test_what_nobody_asked_for_lately_is_not_made(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    monkeypatch.setattr(prefetch, "WATCHED_S", 0.0)
    many(hub, "newest", newest_step)
    next_version(hub, run, 3)
    assert hub.at_hand("job", "newest") is None
    assert hub.followed("job", "newest", newest_step) == 3


def test_what_takes_long_keeps_no_news_waiting(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    monkeypatch.setattr(prefetch, "MOST_EACH_S", 0.05)

    def slow(opened: Run) -> int:
        time.sleep(0.1)
        return newest_step(opened)

    many(hub, "slow", slow)
    many(hub, "quick", newest_step)
    next_version(hub, run, 3)
    assert hub.at_hand("job", "slow") is None
    assert hub.at_hand("job", "quick") == 3


def test_one_that_fails_stops_neither_the_others_nor_the_news(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    fails = False

    def sometimes(opened: Run) -> int:
        if fails:
            raise UserError("not now")
        return newest_step(opened)

    many(hub, "newest", newest_step)
    many(hub, "sometimes", sometimes)  # asked for last: made first
    fails = True
    next_version(hub, run, 3)
    assert hub.at_hand("job", "newest") == 3
    assert hub.at_hand("job", "sometimes") is None
    with pytest.raises(UserError, match="not now"):
        hub.followed("job", "sometimes", sometimes)


def test_no_more_are_watched_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "MOST", 2)
    one = Watched()
    for key in ("a", "b", "c"):
        one.asked(key, newest_step)
    for _ in range(prefetch.SHARED):
        one.asked_again("c")
        one.asked_again("b")
        one.asked_again("a")  # let go of: it is not known how to make it
    assert [key for key, _ in one.due()] == ["b", "c"]
    assert list(one.due()) == []  # nobody has asked since


def test_what_one_browser_asks_for_keeps_its_news_from_waiting(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    hub.followed("job", "newest", newest_step)
    next_version(hub, run, 3)
    assert hub.at_hand("job", "newest") is None
    assert hub.followed("job", "newest", newest_step) == 3


def test_what_depends_on_the_time_is_made_again(hub: Hub, tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    made: list[int] = []

    def compute(_run: Run) -> int:
        made.append(len(made))
        return made[-1]

    def ask(seconds: float) -> int:
        return hub.recent("job", "states", compute, seconds)

    assert [ask(60.0), ask(60.0)] == [0, 0]
    time.sleep(0.02)
    assert [ask(0.01), ask(60.0)] == [1, 1]
