"""What rank 0 decides: which unit comes next, how long it may take, what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from time import monotonic
from typing import Any

from trace_hooks.selftest.conductor import STOP
from trace_hooks.selftest.plan import GROUP_TESTS, RECHECK, Unit
from trace_hooks.selftest.suspects import rechecks

RESERVED = 0.25
"""Share of the budget kept for measuring suspects again."""
LONGEST_S, SHORTEST_S = 5.0, 0.05
"""Of one unit."""


class Director:
    """Gives out units until the plan or the budget is at its end."""

    def __init__(
        self,
        units: Sequence[Unit],
        budget_s: float,
        is_cuda: bool,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.left_out: Counter[str] = Counter()
        self.is_broken = False  # a transfer failed: groups would fail with it
        self._waiting = list(units)
        self._is_cuda = is_cuda
        self._seconds = seconds
        self._begun, self._budget_s = seconds(), budget_s
        self._is_rechecked = False

    def take(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Keep what the ranks measured; returns the message with the next unit, or the end."""
        self.rows += [row for answer in answers for row in answer["rows"]]
        failed = [rank for rank, answer in enumerate(answers) if answer["is_broken"]]
        self.is_broken |= bool(failed)
        if failed and self._is_cuda:  # what hangs in a stream cannot be taken back
            return {STOP: "a transfer failed", "ranks": []}
        unit = self._next()
        if unit is None:
            return {"end": True}
        return {"unit": asdict(unit), "seconds": self._allowance_s()}

    def _next(self) -> Unit | None:
        self._insert_rechecks()
        while self._waiting:
            unit = self._waiting.pop(0)
            if self._is_affordable(unit):
                return unit
            self.left_out[unit.test] += 1
            self._insert_rechecks()
        return None

    def _insert_rechecks(self) -> None:
        """Once devices and pairs are measured, the slowest of them come again."""
        if not self._is_rechecked and all(unit.test in GROUP_TESTS for unit in self._waiting):
            self._is_rechecked = True
            self._waiting[:0] = [] if self.is_broken else rechecks(self.rows)

    def _is_affordable(self, unit: Unit) -> bool:
        if unit.test in GROUP_TESTS and self.is_broken:
            return False
        return self._left_s(unit.test.endswith(RECHECK)) > 0

    def _left_s(self, is_recheck: bool) -> float:
        reserved = 0.0 if self._is_rechecked or is_recheck else RESERVED * self._budget_s
        return self._budget_s - reserved - (self._seconds() - self._begun)

    def _allowance_s(self) -> float:
        """Of the unit that was just taken out: an equal share of what is left."""
        share_s = self._left_s(self._is_rechecked) / (len(self._waiting) + 1)
        return min(max(share_s, SHORTEST_S), LONGEST_S)
