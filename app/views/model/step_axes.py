"""Positions of steps on an axis of time or of tokens, over which curves and maps can be drawn.

Shape suffixes: S step, W drawn column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

STEP, TIME, TOKENS = AXES = ("step", "time", "tokens")

_FOR_RATE = 100
"""Last steps, from which the positions of newer steps are extrapolated."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """Positions of the steps on one axis; `why_not`: a sentence if there are none."""

    name: str
    steps_S: Ints
    place_S: Floats
    """seconds since the first step began, or tokens up to the step's end"""
    why_not: str = ""

    def places(self, steps: npt.ArrayLike) -> Floats:
        """Positions of steps; interpolated for unknown steps, after the last step extrapolated from
        the last steps.
        """
        step_N = np.asarray(steps, dtype=np.float64)
        position_N = np.interp(step_N, self.steps_S, self.place_S)
        if self.steps_S.size < 2:
            return position_N
        before = -min(_FOR_RATE, self.steps_S.size)
        rate = (self.place_S[-1] - self.place_S[before]) / (self.steps_S[-1] - self.steps_S[before])
        return position_N + rate * np.maximum(step_N - self.steps_S[-1], 0)

    def to_json(self) -> dict[str, Any]:
        """The axis for the browser, with the step from which positions count."""
        first = int(self.steps_S[0]) if self.steps_S.size else 0
        return {"name": self.name, "why_not": self.why_not, "from_step": first}


def step_axes(run: Run, attempt: int | None, stop: Stop | None = None) -> dict[str, Axis]:
    """The other axes of an attempt (None: the newest) next to steps; raises UserError."""
    table = run.ask("step_axis", attempt=attempt, stop=stop)
    return {axis.name: axis for axis in (_time(table), _tokens(table))}


def axis_named(name: str) -> str:
    """A name of AXES, '' means steps; raises UserError."""
    if name and name not in AXES:
        raise UserError(f"axis is {name[:40]!r}; give one of {', '.join(AXES)}")
    return name or STEP


def _time(table: pa.Table) -> Axis:
    """The time axis of one attempt: between two attempts there was no training."""
    attempt_S = table.column("attempt").to_numpy()
    begin_S = table.column("begin_s").to_numpy(zero_copy_only=False).astype(np.float64)
    is_here_S = np.isfinite(begin_S) & (attempt_S == attempt_S.max(initial=-1))
    step_S, begin_S = _steps(table)[is_here_S], begin_S[is_here_S]
    why_not = "" if step_S.size else "the run has not recorded when its steps began"
    return Axis(TIME, step_S, np.maximum.accumulate(begin_S), why_not)


def _tokens(table: pa.Table) -> Axis:
    step_S = _steps(table)
    tokens_S = table.column("tokens").to_numpy(zero_copy_only=False).astype(np.float64)
    is_logged_S = np.isfinite(tokens_S) & (tokens_S >= 0)
    last = int(np.flatnonzero(is_logged_S)[-1]) if is_logged_S.any() else -1
    missing = int(np.count_nonzero(~is_logged_S[: last + 1]))
    why_not = ""
    if last < 0 or not tokens_S[: last + 1].any():
        why_not = "the run logs no tokens per step (docs/hooks.md: tracer.log(tokens=...))"
    elif missing:
        why_not = f"{missing:,} of its {last + 1:,} steps log no tokens"
    if why_not:
        return Axis(TOKENS, step_S[:0], np.zeros(0), why_not)
    tokens_S[last + 1 :] = tokens_S[last]  # unfinished steps are assumed to have as many
    return Axis(TOKENS, step_S, np.cumsum(tokens_S))


def _steps(table: pa.Table) -> Ints:
    return table.column("step").to_numpy().astype(np.int64)


def edges_on(place_S: Floats, most: int) -> Ints:
    """First step of each of at most `most` columns, and the end: columns have equal widths on the
    axis; columns without a step are left out.
    """
    num = place_S.size
    width = place_S[-1] - place_S[0] if num else 0.0
    if num <= most or width <= 0:
        return np.linspace(0, num, min(num, max(1, most)) + 1).astype(np.int64)
    column_S = np.minimum(((place_S - place_S[0]) / width * most).astype(np.int64), most - 1)
    return np.append(np.flatnonzero(np.diff(column_S, prepend=-1)), num)
