"""Ranks meet between units: each hands in what it measured, rank 0 sends what comes next.

All of it goes through the job's store, never through the links that are tested, and every wait has
a limit. A rank that does not come is named; the others leave. Rank 0 alone plans, so that ranks
cannot disagree about what to measure, how often, or when to stop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

Answer = dict[str, Any]

GRACE_S = 10.0
"""Ranks allow rank 0 this much more than it allows them: it has to name who is missing."""
LEAVE_S = 5.0
"""Rank 0, whose process keeps the store, waits so long for ranks that have yet to read its last."""
STOP = "stop"


class Store(Protocol):
    """What is used of torch.distributed's stores."""

    def set(self, key: str, value: str) -> None:
        """Set a value."""

    def get(self, key: str) -> bytes:
        """A value; waits for it."""

    def add(self, key: str, amount: int) -> int:
        """Count; returns the new number."""

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Return once all keys are there; raises RuntimeError after `timeout`."""

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""


class StoppedError(Exception):
    """The self-test cannot go on. `ranks`: those at fault."""

    def __init__(self, reason: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(reason)
        self.reason, self.ranks = reason, tuple(ranks)


class Conductor:
    """One rank's part in the meetings, which are numbered: all ranks hold the same ones."""

    def __init__(self, store: Store, rank: int, num_ranks: int, limit_s: float) -> None:
        self._store, self._rank, self._num_ranks = store, rank, num_ranks
        self._limit_s = limit_s
        self._meeting = 0

    def meet(
        self, what: str, own: Answer, decide: Callable[[list[Answer]], Answer], more_s: float = 0.0
    ) -> Answer:
        """Hand in `own`; returns what rank 0 decided from the answers of all, in order of ranks.

        `what` the ranks come from, in words; `more_s`: what that may take besides the limit.
        Raises StoppedError where rank 0 stops, or ranks do not come in time.
        """
        key = f"selftest/{self._meeting}"
        self._meeting += 1
        self._store.set(f"{key}/{self._rank}", json.dumps(own))
        if self._store.add(f"{key}/number", 1) == self._num_ranks:
            self._store.set(f"{key}/full", "1")
        limit_s = self._limit_s + more_s
        if self._rank == 0:
            decision = self._gathered(key, what, limit_s, decide)
            self._store.set(f"{key}/next", json.dumps(decision))
        else:
            decision = self._awaited(key, what, limit_s + GRACE_S)
        if STOP in decision:
            raise StoppedError(decision[STOP], decision.get("ranks", ()))
        return decision

    def leave(self) -> None:
        """Say that this rank needs the store no more; rank 0 leaves it as the last one."""
        with suppress(RuntimeError):
            if self._store.add("selftest/left", 1) == self._num_ranks:
                self._store.set("selftest/all_left", "1")
            if self._rank == 0:
                self._store.wait(["selftest/all_left"], timedelta(seconds=LEAVE_S))

    def _gathered(
        self, key: str, what: str, limit_s: float, decide: Callable[[list[Answer]], Answer]
    ) -> Answer:
        try:
            self._store.wait([f"{key}/full"], timedelta(seconds=limit_s))
        except RuntimeError:
            missing = [r for r in range(self._num_ranks) if not self._store.check([f"{key}/{r}"])]
            return {STOP: what, "ranks": missing}
        return decide([json.loads(self._store.get(f"{key}/{r}")) for r in range(self._num_ranks)])

    def _awaited(self, key: str, what: str, limit_s: float) -> Answer:
        try:
            self._store.wait([f"{key}/next"], timedelta(seconds=limit_s))
        except RuntimeError as error:
            raise StoppedError(f"{what} ({error})", [0]) from None
        decision: Answer = json.loads(self._store.get(f"{key}/next"))
        return decision
