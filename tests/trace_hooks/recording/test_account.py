"""What hooks cost, by thread and source: each has its own time, and none is counted twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.trace_hooks.recording.test_guard import burn
from trace_hooks.recording import guard
from trace_hooks.recording.account import DRAIN, Stretch, num_timed, source_of, timed

MS = 1_000_000


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    guard.account.reset()
    yield
    assert not num_timed
    assert timed.weight == 0
    guard.account.reset()
    for name in [name for name in guard.HOOKS if name.startswith(("outer.", "inner.", "tracer.x"))]:
        del guard.HOOKS[name]


def spent_ms() -> dict[str, float]:
    """CPU ms of training threads by source."""
    by_source: dict[str, float] = {}
    for (_thread, source), ns in guard.account.on_training.by_thread_and_source().items():
        by_source[source] = by_source.get(source, 0.0) + ns / MS
    return by_source


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("collectives.enter", "collectives"),
        ("tracer.flight_recorder.step_end", "flight_recorder"),
        ("tracer.step_begin", "tracer"),
        ("tracer.collectives.poll", "collectives"),
    ],
)
def test_the_source_of_a_hook(name: str, source: str) -> None:
    assert source_of(name) == source


@pytest.mark.parametrize("num_before", [0, guard.EXACT_CALLS * 40])
def test_a_hook_inside_another_is_counted_once(num_before: int) -> None:
    """Also where the inner one is sampled and the outer one is timed, and the other way round."""

    @guard.guarded("inner.part")
    def inner(ns: int) -> None:
        burn(ns)

    @guard.guarded("outer.whole")
    def outer(ns: int) -> None:
        burn(ns)
        inner(ns)

    for _ in range(num_before):
        inner(0)
    guard.account.reset()
    begun_ns = time.thread_time_ns()
    for _ in range(1_500):
        outer(30_000)
    spent = (time.thread_time_ns() - begun_ns) / MS
    found = spent_ms()
    assert sum(found.values()) == pytest.approx(spent, rel=0.15)
    assert found["inner"] == pytest.approx(spent / 2, rel=0.2)
    assert found["outer"] == pytest.approx(spent / 2, rel=0.2)


def test_a_hook_that_raises_inside_another_leaves_no_timing_behind() -> None:
    @guard.guarded("inner.raises", stays_on=True)
    def inner() -> None:
        burn(MS)
        raise KeyError("x")

    @guard.guarded("outer.calls")
    def outer() -> None:
        inner()

    for _ in range(10):
        outer()
    assert spent_ms()["inner"] == pytest.approx(10, rel=0.3)
    assert spent_ms()["outer"] < 1
    assert not num_timed


def test_what_is_attempted_inside_a_hook_has_its_own_source() -> None:
    @guard.guarded("tracer.x_begin", exact=True)
    def step_begins() -> None:
        burn(MS)
        guard.attempt("tracer.inner.step_begin", lambda: burn(3 * MS))

    for _ in range(10):
        step_begins()
    assert spent_ms() == pytest.approx({"tracer": 10, "inner": 30}, rel=0.2)
    guard.attempt(
        "tracer.inner.step_begin", lambda: burn(MS)
    )  # outside of a hook it is not charged
    assert sum(spent_ms().values()) == pytest.approx(40, rel=0.2)


def test_rare_work_inside_an_exact_hook_does_not_stand_for_other_calls() -> None:
    @guard.guarded("tracer.x_rare", exact=True)
    def step_begins(ns: int) -> None:
        burn(ns)

    for _ in range(guard.EXACT_CALLS * 4):
        step_begins(0)
    for _ in range(40):
        step_begins(MS)
    assert spent_ms()["tracer"] == pytest.approx(40, rel=0.15)


def test_each_thread_has_its_own() -> None:
    @guard.guarded("outer.threads")
    def hook() -> None:
        burn(MS)

    hook()
    one = threading.Thread(target=hook)
    one.start()
    one.join()
    costs = guard.account.on_training.by_thread_and_source()
    assert len(costs) == 2
    assert (threading.get_ident(), "outer") in costs


def test_a_thread_of_the_hooks_is_charged_without_a_gap() -> None:
    def work() -> None:
        stretch = Stretch(guard.account, DRAIN)
        for source, ms in (("writing", 4), ("heartbeats", 2), ("writing", 4)):
            burn(ms * MS)
            stretch.charge(source)
        spent.append(time.thread_time_ns())

    spent: list[int] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    costs = guard.account.on_own_threads.by_thread_and_source()
    assert costs[DRAIN, "writing"] > 8 * MS > 4 * MS > costs[DRAIN, "heartbeats"] > 2 * MS
    assert sum(costs.values()) == pytest.approx(spent[0], rel=0.02)
    assert guard.account.training_ns == 0
    assert guard.account.total_ns == sum(costs.values())
