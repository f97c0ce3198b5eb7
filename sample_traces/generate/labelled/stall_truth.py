"""Whether a rank really is late for the stalls that a healthy job has by habit, in given steps.

In a world of busy hosts a rank stalls in every second step for a while, without any fault
(habits.py). Whoever names that rank for these steps is right: it does delay the job then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sample_traces.generate.habits import Float, Habits
from sample_traces.generate.labelled.doses import DOSES
from sample_traces.generate.labelled.log_labels import FITTING, RARE

LEAST = DOSES["masked"]
"""Times as long as without the stall, the mean of the steps named."""

WITHIN = 0.8
"""Of the steps named, the share that lies in the stall."""


@dataclass(frozen=True)
class StallTruth:
    """`step_of`: step times of the job with these habits; steps count from `resumed_at`."""

    habits: Habits
    step_of: Callable[[Habits], Float]
    resumed_at: int = 0

    def delays(self, kind: str, ranks: Collection[int], first_step: int, last_step: int) -> bool:
        """Whether this one rank stalls in these steps, in a phase that the kind fits, and they are
        LEAST times as long for it.
        """
        first, last = first_step - self.resumed_at, last_step - self.resumed_at
        for stall in self.habits.stalls:
            inside = min(last, stall[1]) - max(first, stall[0]) + 1
            fits = kind in (*FITTING[self.habits.stall_phase], *RARE)
            if fits and set(ranks) == {stall[2]} and inside >= WITHIN * (last - first + 1):
                others = tuple(other for other in self.habits.stalls if other is not stall)
                with_S = self.step_of(self.habits)[first : last + 1]
                without_S = self.step_of(replace(self.habits, stalls=others))[first : last + 1]
                return float(with_S.mean()) >= LEAST * float(without_S.mean())
        return False
