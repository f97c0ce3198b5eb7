"""Where steps stand on an axis of time or of tokens: what curves and maps may be drawn over.

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
"""Steps at the end that tell where those stand that came since the axis was made."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """Positions of the steps on one axis; `why_not`: a sentence where there are none."""

    name: str
    steps_S: Ints
    place_S: Floats
    """s since the first step's begin, or tokens up to the step's end"""
    why_not: str = ""

    def places(self, steps: npt.ArrayLike) -> Floats:
        """Positions of steps; of one that the axis does not know: between its neighbours, after
        the last as far apart as the last ones are.
        """
        step_N = np.asarray(steps, dtype=np.float64)
        found_N = np.interp(step_N, self.steps_S, self.place_S)
        if self.steps_S.size < 2:
            return found_N
        before = -min(_FOR_RATE, self.steps_S.size)
        rate = (self.place_S[-1] - self.place_S[before]) / (self.steps_S[-1] - self.steps_S[before])
        return found_N + rate * np.maximum(step_N - self.steps_S[-1], 0)

    def to_json(self) -> dict[str, Any]:
        """What the browser needs to say: from which step on positions are counted."""
        first = int(self.steps_S[0]) if self.steps_S.size else 0
        return {"name": self.name, "why_not": self.why_not, "from_step": first}


def step_axes(run: Run, attempt: int | None, stop: Stop | None = None) -> dict[str, Axis]:
    """The axes of an attempt (None: the newest) beside that of steps; raises UserError."""
    table = run.ask("step_axis", attempt=attempt, stop=stop)
    return {one.name: one for one in (_time(table), _tokens(table))}


def axis_named(name: str) -> str:
    """A name of AXES, '' being that of steps; raises UserError."""
    if name and name not in AXES:
        raise UserError(f"axis is {name[:40]!r}; give one of {', '.join(AXES)}")
    return name or STEP


def _time(table: pa.Table) -> Axis:
    """Of one attempt: between two of them nobody trained."""
    attempt_S = table.column("attempt").to_numpy()
    begin_S = table.column("begin_s").to_numpy(zero_copy_only=False).astype(np.float64)
    is_here_S = np.isfinite(begin_S) & (attempt_S == attempt_S.max(initial=-1))
    step_S, begin_S = _steps(table)[is_here_S], begin_S[is_here_S]
    why_not = "" if step_S.size else "the run has not told when its steps began"
    return Axis(TIME, step_S, np.maximum.accumulate(begin_S), why_not)


def _tokens(table: pa.Table) -> Axis:
    step_S = _steps(table)
    tokens_S = table.column("tokens").to_numpy(zero_copy_only=False).astype(np.float64)
    is_told_S = np.isfinite(tokens_S) & (tokens_S >= 0)
    last = int(np.flatnonzero(is_told_S)[-1]) if is_told_S.any() else -1
    missing = int(np.count_nonzero(~is_told_S[: last + 1]))
    why_not = ""
    if last < 0 or not tokens_S[: last + 1].any():
        why_not = "the run tells no tokens per step (docs/hooks.md: tracer.log(tokens=...))"
    elif missing:
        why_not = f"{missing:,} of its {last + 1:,} steps tell no tokens"
    if why_not:
        return Axis(TOKENS, step_S[:0], np.zeros(0), why_not)
    tokens_S[last + 1 :] = tokens_S[last]  # steps under way are taken to have as many
    return Axis(TOKENS, step_S, np.cumsum(tokens_S))


def _steps(table: pa.Table) -> Ints:
    return table.column("step").to_numpy().astype(np.int64)


def edges_on(place_S: Floats, most: int) -> Ints:
    """First step of each of at most `most` columns, and the end: columns are equally wide on the
    axis, those without a step are left out.
    """
    num = place_S.size
    width = place_S[-1] - place_S[0] if num else 0.0
    if num <= most or width <= 0:
        return np.linspace(0, num, min(num, max(1, most)) + 1).astype(np.int64)
    column_S = np.minimum(((place_S - place_S[0]) / width * most).astype(np.int64), most - 1)
    return np.append(np.flatnonzero(np.diff(column_S, prepend=-1)), num)
