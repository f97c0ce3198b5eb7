"""One step as a training framework logs it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables.span_list import MAX_STEP


@dataclass(slots=True)
class LoggedStep:
    """What a file says of one step; None where it says nothing.

    `end_ns`: Unix ns at which it was logged; `dur_ns`: mean length of the steps since the line
    before, as the file says; `since_ns`: the same by the times of the lines; `samples`, `tokens`:
    of this step, over all ranks; `tokens_per_s` and `flops_per_s`: of one device.
    """

    step: int
    end_ns: int | None = None
    dur_ns: int | None = None
    since_ns: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    lr: float | None = None
    samples: float | None = None
    tokens: float | None = None
    tokens_per_s: float | None = None
    flops_per_s: float | None = None

    @property
    def length_ns(self) -> int | None:
        """How long it took; None unknown."""
        return self.since_ns if self.dur_ns is None else self.dur_ns

    def filled(self, other: LoggedStep) -> LoggedStep:
        """This one, and of another line on the same step what this one does not have."""
        missing = {
            name: getattr(other, name)
            for name in self.__slots__
            if getattr(self, name) is None and getattr(other, name) is not None
        }
        return replace(self, **missing)


def logged_step(step: int, numbers: Mapping[str, float | None]) -> LoggedStep | None:
    """A step from numbers by the names of LoggedStep; None where the step is impossible."""
    if not 0 <= step < MAX_STEP:
        return None
    return LoggedStep(step, **{name: value for name, value in numbers.items() if _fits(value)})  # type: ignore[arg-type]


def _fits(value: float | None) -> bool:
    """Infinite and NaN are values of a loss; but no number that no job can have."""
    return value is not None and (not math.isfinite(value) or abs(value) < 1e300)


def ns_of_ms(milliseconds: float) -> int | None:
    """Whole nanoseconds; None for what is no length of time."""
    ns = milliseconds * 1e6
    return round(ns) if 0 <= ns < MAX_NS else None
