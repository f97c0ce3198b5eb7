"""Which pauses are long, and when ranks are looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from trace_hooks.watchdog.looks import EVERY_S, SECOND_S, Looks
from trace_hooks.watchdog.pauses import LOOK_S, Pauses


def paused(*pauses_s: float, first_step: int = 5) -> tuple[Pauses, float]:
    """A rank that made these pauses, one after each step; (it, when its last one began)."""
    pauses, now_s = Pauses(), 100.0
    for number, pause_s in enumerate((*pauses_s, 0.0)):
        pauses.see((first_step + number, number), now_s)
        now_s += pause_s
    return pauses, now_s


def test_a_pause_is_long_beyond_the_limit_and_twice_the_longest_before() -> None:
    quick, since_s = paused(0.1, 0.2)
    assert not quick.is_long(since_s + LOOK_S - 0.1)
    assert quick.is_long(since_s + LOOK_S + 0.1)
    evaluated, since_s = paused(0.1, 30.0)
    assert not evaluated.is_long(since_s + 59.0)
    assert evaluated.is_long(since_s + 61.0)


def test_the_first_steps_do_not_count() -> None:
    compiled, since_s = paused(40.0, first_step=-1)
    assert compiled.is_long(since_s + LOOK_S + 0.1)


def test_collectives_count_as_progress_within_a_step() -> None:
    pauses, since_s = paused(0.1)
    pauses.see((6, 99), since_s + 3.0)
    assert pauses.quiet_s(since_s + 4.0) == 1.0


def test_ranks_are_looked_at_again_and_once_more_when_they_go_on() -> None:
    is_long: dict[str, Any] = {"now": True}
    member: Any = SimpleNamespace(pauses=SimpleNamespace(is_long=lambda _: is_long["now"]))
    looks, begun_s = Looks(), 50.0
    assert looks.are_due([member], begun_s)
    assert not looks.want_stacks(begun_s)
    assert not looks.are_due([member], begun_s + SECOND_S - 0.1)
    assert looks.are_due([member], begun_s + SECOND_S)
    assert looks.want_stacks(begun_s + SECOND_S)
    assert not looks.are_due([member], begun_s + SECOND_S + EVERY_S - 0.1)
    assert looks.are_due([member], begun_s + SECOND_S + EVERY_S)
    is_long["now"] = False
    assert looks.are_due([member], begun_s + 20.0)
    assert not looks.are_due([member], begun_s + 21.0)
