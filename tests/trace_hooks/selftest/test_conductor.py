"""Ranks meet through a store: answers, the decision, and who does not come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from trace_hooks.selftest import conductor
from trace_hooks.selftest.conductor import STOP, Conductor, StoppedError


class MemoryStore:
    """What a store of torch does, in one process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        with self._changed:
            return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            number = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(number).encode()
            return number

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self._changed:
            if not self._changed.wait_for(
                lambda: all(key in self._values for key in keys), timeout.total_seconds()
            ):
                raise RuntimeError("wait timeout")

    def check(self, keys: list[str]) -> bool:
        with self._changed:
            return all(key in self._values for key in keys)


def outcomes(number: int, act: Callable[[Conductor, int], Any], limit_s: float = 5.0) -> list[Any]:
    """What each rank returns or raises."""
    store = MemoryStore()

    def rank(rank: int) -> Any:
        try:
            return act(Conductor(store, rank, number, limit_s), rank)
        except StoppedError as stopped:
            return stopped

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(rank, range(number)))


def test_all_get_what_rank_0_decides_from_all_answers() -> None:
    def act(own: Conductor, rank: int) -> list[int]:
        total = []
        for meeting in range(3):
            answer = own.meet(
                "work", {"rank": rank}, lambda all_: {"sum": sum(a["rank"] for a in all_)}
            )
            total.append(answer["sum"] + meeting)
        return total

    assert outcomes(4, act) == [[6, 7, 8]] * 4


def test_rank_0_stops_everybody() -> None:
    stopped = outcomes(3, lambda own, _: own.meet("work", {}, lambda _: {STOP: "no", "ranks": [1]}))
    assert {(one.reason, one.ranks) for one in stopped} == {("no", (1,))}


def test_a_rank_that_does_not_come_is_named_to_all() -> None:
    def act(own: Conductor, rank: int) -> Any:
        if rank == 2:
            return None
        return own.meet("pair test", {}, lambda _: {})

    first, second, absent, last = outcomes(4, act, limit_s=0.2)
    assert absent is None
    for one in (first, second, last):
        assert (one.reason, one.ranks) == ("pair test", (2,))


def test_rank_0_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor, "GRACE_S", 0.1)
    begun = time.monotonic()
    silent, other = outcomes(
        2, lambda own, rank: own.meet("work", {}, lambda _: {}) if rank else None, limit_s=0.1
    )
    assert silent is None
    assert other.ranks == (0,)
    assert time.monotonic() - begun < 5


def test_rank_0_leaves_the_store_as_the_last_one() -> None:
    left: list[int] = []

    def act(own: Conductor, rank: int) -> None:
        if rank:
            time.sleep(0.1 * rank)
            left.append(rank)
        own.leave()
        if rank == 0:
            left.append(rank)

    outcomes(3, act)
    assert left == [1, 2, 0]


def test_rank_0_waits_not_for_ever_for_others_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor, "LEAVE_S", 0.05)
    assert outcomes(3, lambda own, rank: own.leave() if rank != 1 else None) == [None] * 3
