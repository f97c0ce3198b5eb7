"""What the job logged of its steps: loss, gradient norm and learning rate, pooled to the width of
a plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.views.model.losses import Logged, losses
from ingest.run import Run
from ingest.stopping import Stop

NUMBERS = ("loss", "grad_norm", "lr")
"""Columns of the saved query `steps`, in the order in which they are shown."""


def logged(run: Run, attempt: int | None, stop: Stop | None = None) -> dict[str, Logged]:
    """Steps and values of each number that the job logged; None: the newest attempt of each step.

    A value is the mean over the ranks that logged it, the learning rate the greatest. Raises
    UserError.
    """
    steps = run.ask("steps", attempt=attempt, stop=stop)
    step_S = steps.column("step").to_numpy().astype(np.int64)
    found = {}
    for name in NUMBERS:
        values = steps.column(name)
        is_logged_S = values.is_valid().to_numpy(zero_copy_only=False)
        if is_logged_S.any():
            value_S = values.to_numpy(zero_copy_only=False).astype(np.float64)
            found[name] = step_S[is_logged_S], value_S[is_logged_S]
    return found


def has_logged(run: Run) -> bool:
    """Whether the job logged any of the numbers, in any attempt."""
    return bool(
        run.index_rows(
            "SELECT 1 FROM step_rows"
            " WHERE loss IS NOT NULL OR grad_norm IS NOT NULL OR lr IS NOT NULL LIMIT 1"
        )
    )


def pooled(
    numbers: Mapping[str, Logged], width: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """At most `width` columns of each number, as NAME_first and so on (app.views.model.losses), and
    in meta what is said of it."""
    arrays = {
        f"{name}_{array}": values
        for name, of_steps in numbers.items()
        for array, values in losses(of_steps, None, width)[0].items()
    }
    return arrays, {"numbers": {name: _said(*of_steps) for name, of_steps in numbers.items()}}


def _said(step_S: np.ndarray, value_S: np.ndarray) -> dict[str, Any]:
    """Newest value, the highest one, and how many are not finite; None: there is none."""
    is_finite_S = np.isfinite(value_S)
    bad_S, finite_S = step_S[~is_finite_S], step_S[is_finite_S]
    highest = int(np.argmax(value_S[is_finite_S])) if finite_S.size else None
    return {
        "step": int(step_S[-1]),
        "value": float(value_S[-1]) if is_finite_S[-1] else None,
        "highest": None if highest is None else float(value_S[is_finite_S][highest]),
        "highest_step": None if highest is None else int(finite_S[highest]),
        "num_bad": int(bad_S.size),
        "first_bad": int(bad_S[0]) if bad_S.size else None,
    }
