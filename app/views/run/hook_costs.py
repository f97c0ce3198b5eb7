"""From which step on the hooks' cost is judged and shown."""

from __future__ import annotations

from diagnosis.statistics.step_levels import WARM_UP_STEPS
from ingest.run import Run

HOOK_COSTS = ("hook_cost", "hook_cost_by_step", "hook_cost_by_source")
"""Saved queries about it."""


def warm_from(run: Run, attempt: int) -> int:
    """The first step after the warm-up of an attempt, in which the hooks are set up, too: they
    look for modules, optimizers and groups once. 0 where no step is known.
    """
    (row,) = run.index_rows(
        "SELECT min(step) AS step FROM step_rollup WHERE attempt = $attempt AND step >= 0",
        attempt=attempt,
    )
    return 0 if row["step"] is None else int(row["step"]) + WARM_UP_STEPS
