"""The job's loss over the steps, pooled to the width of a plot.

Shape suffixes: S steps, C columns of the plot.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.run import Run
from ingest.stopping import Stop

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Logged = tuple[Ints, Floats]
"""Steps with a loss, in order, and the mean of the losses that the ranks logged."""


def logged_losses(run: Run, attempt: int | None, stop: Stop | None = None) -> Logged:
    """Losses of an attempt; None: the newest attempt of each step. Raises UserError."""
    steps = run.ask("steps", attempt=attempt, stop=stop)
    loss = steps.column("loss")
    step_S = steps.column("step").to_numpy().astype(np.int64)
    loss_S = loss.to_numpy(zero_copy_only=False).astype(np.float64)
    is_logged_S = loss.is_valid().to_numpy(zero_copy_only=False)
    return step_S[is_logged_S], loss_S[is_logged_S]


def losses(
    logged: Logged, steps: tuple[int, int] | None, width: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """At most `width` columns of equally many steps; arrays and meta of the answer.

    first, last: steps of a column with a loss; mean, least, greatest: of the finite losses (NaN if
    there are none); bad: number of losses that are not finite.
    """
    step_S, loss_S = logged
    if steps is not None:
        low, high = np.searchsorted(step_S, (steps[0], steps[1] + 1))
        step_S, loss_S = step_S[low:high], loss_S[low:high]
    meta: dict[str, Any] = {"num_steps": int(step_S.size), "steps": None}
    if not step_S.size:
        return {name: np.zeros(0) for name in ("first", "last", "mean", "least", "greatest")} | {
            "bad": np.zeros(0, np.uint32)
        }, meta
    meta["steps"] = [int(step_S[0]), int(step_S[-1])]
    span = int(step_S[-1] - step_S[0]) + 1
    column_S = (step_S - step_S[0]) * min(width, span) // span
    starts_C = np.flatnonzero(np.diff(column_S, prepend=-1))
    ends_C = np.append(starts_C[1:], step_S.size) - 1
    is_finite_S = np.isfinite(loss_S)
    count_C = np.add.reduceat(is_finite_S.astype(np.int64), starts_C)
    sum_C = np.add.reduceat(np.where(is_finite_S, loss_S, 0.0), starts_C)
    least_C = np.minimum.reduceat(np.where(is_finite_S, loss_S, np.inf), starts_C)
    greatest_C = np.maximum.reduceat(np.where(is_finite_S, loss_S, -np.inf), starts_C)
    has_C = count_C > 0
    return {
        "first": step_S[starts_C].astype(np.float64),
        "last": step_S[ends_C].astype(np.float64),
        "mean": np.where(has_C, sum_C / np.maximum(count_C, 1), np.nan),
        "least": np.where(has_C, least_C, np.nan),
        "greatest": np.where(has_C, greatest_C, np.nan),
        "bad": (ends_C - starts_C + 1 - count_C).astype(np.uint32),
    }, meta
