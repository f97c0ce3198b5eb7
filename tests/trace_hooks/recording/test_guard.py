"""The boundary around hooks: what it lets through, and the cost of the hooks that it reports."""

import threading
import time
from collections.abc import Iterator

import pytest

from trace_hooks.recording import guard


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    guard.account.reset()
    yield
    guard.account.reset()
    for name in [name for name in guard.HOOKS if name.startswith("test_guard.")]:
        del guard.HOOKS[name]


def burn(ns: int) -> None:
    until = time.thread_time_ns() + ns
    while time.thread_time_ns() < until:
        pass


def test_self_time_is_cpu_time_not_wall_time():
    @guard.guarded("test_guard.sleeps")
    def sleeps() -> None:
        time.sleep(0.05)

    for _ in range(4):
        sleeps()
    assert guard.account.training_ns < 20_000_000  # of 200 ms of wall time


def test_rare_hooks_are_timed_exactly():
    @guard.guarded("test_guard.rare")
    def rare(ns: int) -> None:
        burn(ns)

    for ns in (100_000, 20_000_000, 100_000):
        rare(ns)
    assert 20_200_000 <= guard.account.training_ns < 25_000_000


def test_frequent_hooks_are_timed_by_samples():
    spent = 0

    @guard.guarded("test_guard.frequent")
    def frequent(ns: int) -> None:
        nonlocal spent
        begun = time.thread_time_ns()
        burn(ns)
        spent += time.thread_time_ns() - begun

    for call in range(6_000):
        frequent(10_000 + call % 16 * 2_000)  # a cycle, as of the modules of a model
    assert 0.85 < guard.account.training_ns / spent < 1.15


def test_calls_of_several_threads_stay_sampled():
    @guard.guarded("test_guard.threads")
    def threads() -> None:
        burn(2_000)

    workers = [threading.Thread(target=lambda: [threads() for _ in range(5_000)]) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert 15_000 * 2_000 * 0.7 < guard.account.training_ns < 15_000 * 2_000 * 3


def test_a_hook_that_raises_in_a_timed_or_an_untimed_call_is_off_from_then_on():
    calls = []

    @guard.guarded("test_guard.fails")
    def fails(at: int) -> int:
        calls.append(at)
        if len(calls) == at:
            raise KeyError(at)
        return at

    for at in (1, guard.EXACT_CALLS + 5):
        guard.account.reset()
        calls.clear()
        results = [fails(at) for _ in range(at + 2)]
        assert results == [at] * (at - 1) + [None] * 3
        assert len(calls) == at
        assert guard.account.errors == {"test_guard.fails": 1}


def test_a_hook_that_stays_on_goes_on_after_an_error():
    @guard.guarded("test_guard.stays", stays_on=True)
    def stays(value: object) -> int:
        return int(value)  # type: ignore[call-overload]

    assert [stays("x"), stays(3), stays(None)] == [None, 3, None]
    assert guard.account.errors == {"test_guard.stays": 2}


@pytest.mark.parametrize("text", ["__str__", "__repr__"])
def test_an_error_whose_own_text_raises_does_not_reach_training(text):
    def fails(_error):
        raise RuntimeError("no text")

    kind = type("Speechless", (Exception,), {text: fails})
    guard.account.reset()

    @guard.guarded("test_guard.speechless")
    def hook():
        raise kind("x")

    assert hook() is None
    assert guard.account.errors == {"test_guard.speechless": 1}
    assert "Speechless" in guard.account.take_news()[0][1]


def test_of_functions_called_together_each_has_a_boundary_and_a_cost_of_its_own():
    calls: list[str] = []

    @guard.guarded("inner.work", exact=True)
    def inner() -> None:
        burn(4_000_000)

    def fails() -> None:
        calls.append("fails")
        raise ValueError("broken")

    def works() -> None:
        calls.append("works")
        burn(2_000_000)
        inner()

    each = guard.Each([("tracer.fails.begin", fails), ("tracer.works.begin", works)])

    @guard.guarded("outer.work", exact=True)
    def outer() -> None:
        each.attempt()
        burn(1_000_000)

    outer()
    outer()
    assert calls == ["fails", "works", "works"]  # what raised once is off
    spent: dict[str, int] = {}
    for (_, source), ns in guard.account.on_training.by_thread_and_source().items():
        spent[source] = spent.get(source, 0) + ns
    expected = {"outer": 2_000_000, "works": 4_000_000, "inner": 8_000_000}
    for source, ns in expected.items():
        assert ns <= spent[source] < 2 * ns, source
    assert spent["fails"] < 1_000_000


def test_functions_called_together_outside_of_a_timed_hook_cost_nobody():
    guard.Each([("tracer.works.begin", lambda: burn(1_000_000))]).attempt()
    assert guard.account.training_ns == 0
