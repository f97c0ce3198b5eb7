"""A missed fault, what the diagnosis of its run read, and how numbers are said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.statistics import step_levels
from diagnosis.statistics.phase_times import PhaseTimes, middle, phase_times
from diagnosis.statistics.rank_tables import Floats, Ints
from sample_traces.generate.labelled.labels import Label

FROM_THE_FIRST = "It acts from the first steps on: no step shows what was usual."


@dataclass(frozen=True)
class Miss:
    """A missed fault, and what the diagnosis of its run read and found."""

    label: Label
    tables: Mapping[str, pa.Table]
    attempt: int
    findings: Sequence[dict[str, Any]] = ()

    @cached_property
    def times(self) -> PhaseTimes:
        """Phases of its ranks."""
        return phase_times(self.tables)

    @cached_property
    def column_N(self) -> Ints:
        """Columns of the fault's steps."""
        return self.columns_of(self.times.step_S)

    def columns_of(self, step_S: Ints) -> Ints:
        """Columns of the fault's steps among these."""
        return np.flatnonzero((step_S >= self.label.first_step) & (step_S <= self.label.last_step))

    @cached_property
    def before_N(self) -> Ints:
        """Columns of the steps before it, without those in which a job warms up."""
        begin = step_levels.WARM_UP_STEPS
        return np.arange(begin, max(int(self.column_N[0]), begin))

    @property
    def rows(self) -> Ints:
        """Rows of the ranks to name."""
        return np.flatnonzero(np.isin(self.times.ranks.rank_R, self.label.ranks))

    def now(self, value_S: Floats) -> float:
        """Median of its steps."""
        return middle(value_S[self.column_N])

    def risen(self, value_S: Floats) -> float:
        """By how much that is above the median of the steps before."""
        return self.now(value_S) - middle(value_S[self.before_N])

    def acts_in(self, first: int, last: int) -> bool:
        """Whether one of these columns is a step of the fault."""
        return first <= int(self.column_N[-1]) and int(self.column_N[0]) <= last


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if np.isfinite(share) else "an unknown share"


def longer(share: float) -> str:
    return f"{percent(abs(share))} {'shorter' if share < 0 else 'longer'}"
