"""What each policy serves of a run that has news, and what is peeked at without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.runs.hub import Hub
from app.runs.policies import REST, max_age, min_age
from tests.runs_builder import two_rank_run
from tests.waiting import wait_until

WAIT_S = 60.0


def settled(hub: Hub) -> None:
    hub.run("job")
    assert hub.catch_up("job", WAIT_S)
    time.sleep(0.3)  # the merge after the first pass


def counter() -> Callable[..., int]:
    """Computes 0, 1, 2, ..."""
    computed: list[int] = []

    def compute(_run: object, _stop: object) -> int:
        computed.append(len(computed))
        return computed[-1]

    return compute


def test_max_age_depends_on_the_clock_and_on_the_news(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    compute = counter()

    def states(seconds: float) -> int:
        return hub.cache.get("job", "states", compute, max_age(seconds))

    assert [states(60.0), states(60.0)] == [0, 0]
    time.sleep(0.02)
    assert [states(0.01), states(60.0)] == [1, 1]
    version = hub.version("job")
    run.step(0, 3, 300, 400)
    run.publish()
    wait_until(lambda: hub.version("job") > version)
    assert states(60.0) == 2


def test_min_age_takes_news_in_every_few_seconds_not_at_once(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    settled(hub)
    compute = counter()

    def fetch(key: str, seconds: float) -> Any:
        return hub.cache.fetch("job", key, compute, min_age(seconds))

    quick, slow = fetch("quick", 0.0), fetch("slow", 60.0)
    assert (quick.value, slow.value) == (0, 1)
    assert [fetch("quick", 0.0).value, fetch("slow", 60.0).value] == [0, 1], "there is no news"
    run.step(0, 3, 300, 400)
    run.publish()
    wait_until(lambda: hub.version("job") > quick.version)
    while time.monotonic() - quick.begun_s < (1 + REST) * quick.took_s:
        time.sleep(0.05)
    assert hub.version("job") > slow.version
    assert fetch("slow", 60.0).value == 1
    assert fetch("quick", 0.0).value == 2


def test_min_age_is_longer_for_what_took_long(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)

    def ask(text: str, seconds: float = 0.0) -> Any:
        def compute(_run: object, _stop: object) -> str:
            time.sleep(seconds)
            return text

        return hub.cache.fetch("job", "key", compute, min_age(0.0))

    old = ask("old", 0.5)
    assert old.took_s >= 0.5
    run.step(0, 3, 300, 400)
    run.publish()
    wait_until(lambda: hub.version("job") > old.version)
    rests_until_s = old.begun_s + old.took_s + REST * old.took_s
    is_resting = time.monotonic() < rests_until_s - 0.1
    assert ask("new").value == "old" or not is_resting
    while time.monotonic() < rests_until_s:
        time.sleep(0.05)
    assert ask("new").value == "new"


def test_peeking_opens_no_run_and_computes_nothing(hub: Hub, tmp_path: Path) -> None:
    run = two_rank_run(tmp_path / "job", num_steps=3)
    assert hub.cache.peek("job", "key") is None
    assert hub.num_open == 0
    settled(hub)
    hub.cache.get("job", "key", counter(), min_age(60.0))
    assert hub.cache.peek("job", "key") == 0
    version = hub.version("job")
    run.step(0, 3, 300, 400)
    run.publish()
    wait_until(lambda: hub.version("job") > version)
    assert hub.cache.peek("job", "key") is None, "it is about an older version"
