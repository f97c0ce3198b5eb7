"""Expensive answers are computed again at a bounded rate, and nobody is left with an old one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from app.runs import cache, revalidation
from app.runs.hub import Hub
from app.runs.policies import PREFETCH, STALE_WHILE_REVALIDATE
from app.runs.prefetch import Compute
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop
from tests.runs_builder import RunBuilder, remove_run, two_rank_run
from tests.waiting import wait_until

WAIT_S = 60.0


def revalidated(hub: Hub, key: str, compute: Compute[int]) -> int:
    return hub.cache.get("job", key, compute, STALE_WHILE_REVALIDATE)


def caught_up(hub: Hub, runs: Path) -> RunBuilder:
    """A new run that the hub follows, and knows all of."""
    run = two_rank_run(runs / "job")
    hub.run("job")
    assert hub.catch_up("job", WAIT_S)
    return run


def more(run: RunBuilder, hub: Hub, step: int) -> None:
    run.step(0, step, step * 100, step * 100 + 100)
    run.publish()
    assert hub.catch_up("job", WAIT_S)


def newest_step(run: Run, _stop: Stop | None) -> int:
    return int(run.index_rows("SELECT max(step) AS step FROM step_rollup")[0]["step"])


def test_an_old_answer_is_served_until_it_has_rested_then_there_is_news(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revalidation, "LEAST_REST_S", 3.0)
    run = caught_up(hub, tmp_path)
    assert revalidated(hub, "newest", newest_step) == 2
    version = hub.version("job")
    more(run, hub, 3)
    assert hub.version("job") > version
    assert revalidated(hub, "newest", newest_step) == 2
    news = threading.Event()
    end = hub.listen(
        lambda _name, _version: news.set() if revalidated(hub, "newest", newest_step) == 3 else None
    )
    assert news.wait(WAIT_S), "nothing was written, and the newer answer could be had"
    end()


def test_what_was_made_of_an_old_answer_while_news_were_announced_is_made_again(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that has died brings no later news: what is missed then would never be shown."""
    monkeypatch.setattr(revalidation, "LEAST_REST_S", 0.0)
    run = caught_up(hub, tmp_path)
    computed: list[int] = []

    def noted(opened: Run, stop: Stop | None) -> int:
        computed.append(newest_step(opened, stop))
        return computed[-1]

    def derived() -> int:
        return hub.cache.get(
            "job", "derived", lambda *_: revalidated(hub, "newest", noted), PREFETCH
        )

    def takes_its_time(_name: str, _version: int) -> None:
        derived()
        wait_until(lambda: 3 in computed)
        time.sleep(0.2)

    assert derived() == 2
    end = hub.listen(takes_its_time)
    more(run, hub, 3)
    wait_until(lambda: derived() == 3)
    end()


def test_who_only_asks_and_listens_to_nothing_gets_the_newer_answer_too(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revalidation, "LEAST_REST_S", 0.3)
    run = caught_up(hub, tmp_path)

    def derived() -> int:
        made = lambda *_: revalidated(hub, "newest", newest_step)  # noqa: E731
        return hub.cache.get("job", "derived", made, PREFETCH)

    assert derived() == 2
    more(run, hub, 3)
    assert derived() == 2, "made of the older answer, which rests"
    wait_until(lambda: derived() == 3)


def test_what_fails_is_computed_again_at_once(hub: Hub, tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    tried: list[int] = []

    def fails_first(run: Run, stop: Stop | None) -> int:
        tried.append(1)
        if len(tried) == 1:
            raise UserError("no")
        return newest_step(run, stop)

    with pytest.raises(UserError, match="no"):
        revalidated(hub, "newest", fails_first)
    assert revalidated(hub, "newest", fails_first) == 2
    assert len(tried) == 2


def test_no_more_than_two_are_computed_in_the_background(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revalidation, "LEAST_REST_S", 0.0)
    run = caught_up(hub, tmp_path)
    under_way: list[str] = []
    most: list[int] = []
    is_slow, end = threading.Event(), threading.Event()

    def compute(opened: Run, stop: Stop | None) -> int:
        if is_slow.is_set():
            under_way.append(threading.current_thread().name)
            most.append(len(under_way))
            end.wait(WAIT_S)
            under_way.pop()
        return newest_step(opened, stop)

    keys = [f"answer {n}" for n in range(6)]
    assert [revalidated(hub, key, compute) for key in keys] == [2] * 6
    more(run, hub, 3)
    is_slow.set()
    assert [revalidated(hub, key, compute) for key in keys] == [2] * 6, "served at once"
    wait_until(lambda: len(under_way) == cache.MOST_IN_BACKGROUND)
    assert all(name.startswith("revalidate") for name in under_way)
    end.set()
    wait_until(lambda: [revalidated(hub, key, compute) for key in keys] == [3] * 6)
    assert max(most) == cache.MOST_IN_BACKGROUND == 2


def test_answers_that_outlive_news_go_with_their_run(hub: Hub, tmp_path: Path) -> None:
    two_rank_run(tmp_path / "job")
    assert revalidated(hub, "newest", newest_step) == 2
    remove_run(tmp_path / "job")
    wait_until(lambda: hub.num_open == 0)
    assert len(hub.cache) == 0


def test_an_answer_that_is_served_although_it_is_older_is_there(hub: Hub, tmp_path: Path) -> None:
    run = caught_up(hub, tmp_path)
    assert not hub.cache.has_any("job", "newest")
    assert revalidated(hub, "newest", newest_step) == 2
    assert hub.cache.peek("job", "newest") == 2
    more(run, hub, 3)
    assert hub.cache.has_any("job", "newest")
    assert not hub.cache.has_any("elsewhere", "newest")
