"""What a tile compares with: which steps, their median and noise, and the change in words."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np

from diagnosis.costs import steps_without
from diagnosis.statistics.units import in_ms, steps_text

NOW_STEPS = 5
"""Steps whose median is `now` if no steps are chosen."""
BASELINE_STEPS = 50
FIRST_STEPS, FEWEST_STEPS = 5, 3
WARM_UP_STEPS = 2
"""The first steps allocate and compile: they are not part of a baseline."""
NOISE_MADS = 3.0
LEAST_CHANGE = 0.01
"""Changes below 1 % of the baseline (or 1 point of a share) do not count."""

Steps = tuple[int, int]
Spans = tuple[tuple[int, float], ...]
Series = list[tuple[int, float]]
"""(step, value), in order of steps, only known values"""


@dataclass(frozen=True)
class Baseline:
    """The value with which `now` is compared. `noise`: 3 MAD of its steps."""

    value: float
    noise: float
    text: str


@dataclass(frozen=True)
class Scope:
    """Steps on the page (None: the newest), and those of findings, which no baseline holds.

    First and last steps, infinite while it goes on: `own` of the finding on the page, `others` of
    further ones that make steps longer.
    """

    steps: Steps | None = None
    own: Spans = ()
    others: Spans = ()


def now_of(series: Series, steps: Steps | None) -> Series:
    """The chosen steps of a series, else its last 5."""
    if steps is None:
        return series[-NOW_STEPS:]
    return [(step, value) for step, value in series if steps[0] <= step <= steps[1]]


def baseline_of(series: Series, now: Series, scope: Scope) -> Baseline | None:
    """The steps without a finding that the cost of the one on the page is measured against; where
    there is none, the 50 steps before `now`, or the first 3 to 5 after the warm-up.

    Its noise is the greater of theirs and that of `now`: three steps say little about it.
    """
    if not now:
        return None
    chosen = _without_findings(series, now, scope) if scope.own else _before(series, now)
    if len(chosen) < FEWEST_STEPS:
        return None
    middle = statistics.median(value for _, value in chosen)
    return Baseline(middle, max(_noise(chosen), _noise(now)), _text(chosen))


def _without_findings(series: Series, now: Series, scope: Scope) -> Series:
    """Those near the finding; where they are too few for a cost, all after a shorter warm-up."""
    step_S = np.array([step for step, _ in series], np.int64)
    near = set(step_S[steps_without(scope.own, scope.others, step_S)].tolist())
    shown = {step for step, _ in now}
    chosen = [(step, value) for step, value in series if step in near and step not in shown]
    if len(chosen) >= FEWEST_STEPS:
        return chosen
    taken = (*scope.own, *scope.others, (now[0][0], now[-1][0]))
    return [
        (step, value)
        for step, value in series[WARM_UP_STEPS:]
        if not any(first <= step <= last for first, last in taken)
    ]


def _before(series: Series, now: Series) -> Series:
    before = [(step, value) for step, value in series if step < now[0][0]][WARM_UP_STEPS:]
    return before[-BASELINE_STEPS:] if len(before) >= BASELINE_STEPS else before[:FIRST_STEPS]


def _text(chosen: Series) -> str:
    """Which steps these are."""
    first, last = chosen[0][0], chosen[-1][0]
    if len(chosen) == last - first + 1:
        return steps_text(first, last)
    return f"{len(chosen)} steps without a finding"


def _noise(series: Series) -> float:
    values = [value for _, value in series]
    middle = statistics.median(values)
    return NOISE_MADS * statistics.median(abs(value - middle) for value in values)


def change_of(
    value: float, base: Baseline | None, higher_is_bad: bool, is_time: bool
) -> tuple[str, str]:
    """Text for the change from the baseline, and the tone.

    Times name the baseline, not the difference: next to the cost of a finding, a median less a
    median would look like another cost.
    """
    if base is None:
        return "no baseline to compare with", "plain"
    change = value - base.value
    least = LEAST_CHANGE * base.value if is_time else LEAST_CHANGE
    if math.isclose(change, 0, abs_tol=1e-12) or abs(change) <= max(base.noise, least):
        return f"similar to {base.text}", "plain"
    arrow = "▲" if change > 0 else "▼"
    tone = "bad" if (change > 0) == higher_is_bad else "good"
    if is_time:
        return f"{arrow} from {in_ms(base.value)} in {base.text}", tone
    return f"{arrow} {100 * abs(change):.1f} pt vs {base.text}", tone
