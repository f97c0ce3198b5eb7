"""What many pages ask for is computed before the news are announced; other answers are not."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TypeVar

import pytest

from app.runs import prefetch
from app.runs.hub import Hub
from app.runs.policies import PREFETCH
from app.runs.prefetch import Compute, Prefetch
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Interrupted, Stop
from tests.runs_builder import RunBuilder, two_rank_run

WAIT_S = 60.0
T = TypeVar("T")


def next_version(hub: Hub, run: RunBuilder, step: int) -> int:
    """Write a step; the version that announces it."""
    announced = threading.Event()
    before = hub.version("job")
    end = hub.listen(lambda _name, version: announced.set() if version > before else None)
    run.step(0, step, step * 100, step * 100 + 100)
    run.publish()
    assert announced.wait(WAIT_S)
    end()
    return hub.version("job")


def newest_step(run: Run, _stop: Stop | None = None) -> int:
    return int(run.index_rows("SELECT max(step) AS step FROM step_rollup")[0]["step"])


def prefetched(hub: Hub, key: str, compute: Compute[T]) -> T:
    return hub.cache.get("job", key, compute, PREFETCH)


def many(hub: Hub, key: str, compute: Compute[T]) -> T:
    """As many requests as make an answer worth prefetching."""
    for _ in range(prefetch.LEAST_REQUESTS - 1):
        prefetched(hub, key, compute)
    return prefetched(hub, key, compute)


def settled_run(hub: Hub, runs: Path) -> RunBuilder:
    """A new run of three steps that the hub knows all of."""
    run = two_rank_run(runs / "job", num_steps=3)
    hub.run("job")
    assert hub.catch_up("job", WAIT_S)
    time.sleep(0.3)  # the merge after the first pass
    return run


def test_an_answer_that_many_ask_for_is_there_when_the_news_are(hub: Hub, tmp_path: Path) -> None:
    run = settled_run(hub, tmp_path)
    threads: list[str] = []

    def compute(opened: Run, _stop: Stop | None) -> int:
        threads.append(threading.current_thread().name)
        return newest_step(opened)

    assert many(hub, "newest", compute) == 2
    announced: list[object] = []
    hub.listen(lambda name, _version: announced.append(hub.cache.peek(name, "newest")))
    next_version(hub, run, 3)
    assert announced[0] == 3
    assert threads[0] == threading.current_thread().name
    assert set(threads[1:]) == {"follow job"}
    assert prefetched(hub, "newest", compute) == 3


def test_what_it_is_made_of_is_computed_again_as_well(hub: Hub, tmp_path: Path) -> None:
    run = settled_run(hub, tmp_path)

    def compute(_run: Run, _stop: Stop | None) -> str:
        return f"step {hub.cache.get('job', 'inner', newest_step)}"

    assert many(hub, "outer", compute) == "step 2"
    next_version(hub, run, 3)
    assert hub.cache.peek("job", "outer") == "step 3"


def test_what_was_not_requested_lately_is_not_prefetched(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = settled_run(hub, tmp_path)
    monkeypatch.setattr(prefetch, "REQUESTED_WITHIN_S", 0.0)
    many(hub, "newest", newest_step)
    next_version(hub, run, 3)
    assert hub.cache.peek("job", "newest") is None
    assert prefetched(hub, "newest", newest_step) == 3


def test_what_takes_long_delays_no_news(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = settled_run(hub, tmp_path)
    monkeypatch.setattr(prefetch, "MOST_EACH_S", 0.05)

    def slow(opened: Run, _stop: Stop | None) -> int:
        time.sleep(0.1)
        return newest_step(opened)

    many(hub, "slow", slow)
    many(hub, "quick", newest_step)
    next_version(hub, run, 3)
    assert hub.cache.peek("job", "slow") is None
    assert hub.cache.peek("job", "quick") == 3


def test_one_that_fails_stops_neither_the_others_nor_the_news(hub: Hub, tmp_path: Path) -> None:
    run = settled_run(hub, tmp_path)
    fails = False

    def sometimes(opened: Run, _stop: Stop | None) -> int:
        if fails:
            raise UserError("not now")
        return newest_step(opened)

    many(hub, "newest", newest_step)
    many(hub, "sometimes", sometimes)  # asked for last: computed first
    fails = True
    next_version(hub, run, 3)
    assert hub.cache.peek("job", "newest") == 3
    assert hub.cache.peek("job", "sometimes") is None
    with pytest.raises(UserError, match="not now"):
        prefetched(hub, "sometimes", sometimes)


def test_the_answers_that_may_be_prefetched_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "MOST_KEYS", 2)
    run_answers = Prefetch()
    for key in ("a", "b", "c"):
        run_answers.requested(key, newest_step)
    for _ in range(prefetch.LEAST_REQUESTS):
        run_answers.served("c")
        run_answers.served("b")
        run_answers.served("a")  # dropped: it is not known how to compute it
    assert [key for key, _ in run_answers.due()] == ["b", "c"]
    assert list(run_answers.due()) == []  # nobody has asked since


def test_what_one_browser_asks_for_is_not_prefetched(hub: Hub, tmp_path: Path) -> None:
    run = settled_run(hub, tmp_path)
    prefetched(hub, "newest", newest_step)
    next_version(hub, run, 3)
    assert hub.cache.peek("job", "newest") is None
    assert prefetched(hub, "newest", newest_step) == 3


def test_a_request_that_was_stopped_stops_no_prefetching(hub: Hub, tmp_path: Path) -> None:
    run = settled_run(hub, tmp_path)
    stop = Stop()

    def stoppable(opened: Run, stop: Stop | None) -> int:
        if stop is not None and stop.called:
            raise Interrupted("the browser has left")
        return newest_step(opened)

    for _ in range(prefetch.LEAST_REQUESTS):
        hub.cache.get("job", "newest", stoppable, PREFETCH, stop)
    stop()
    next_version(hub, run, 3)
    assert hub.cache.peek("job", "newest") == 3
