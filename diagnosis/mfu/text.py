"""The change between two windows of steps in a sentence."""

from __future__ import annotations

import math

from diagnosis.mfu.change_point import Decline
from diagnosis.mfu.comparison import LONG_STEPS, Change, Comparison
from diagnosis.mfu.explain import Cause, named_parts
from diagnosis.mfu.parts import LONGEST, title_of
from diagnosis.statistics.step_levels import (
    FEWEST_SHORT,
    FEWEST_STEPS,
    LEAST_RISE,
    SHORT_RISE,
)
from diagnosis.statistics.units import in_ms, steps_text


def sentence(
    comparison: Comparison,
    since: str,
    causes: tuple[Cause, ...] = (),
    of_long_steps: bool = False,
) -> str:
    """ "MFU fell 2.7 points (2.1 to 3.3) since step 4,800, from 41.2 % to 38.5 %: waiting for other
    ranks +1.9 (launch skew by ...), DP communication +0.6 (above all reduce_scatter, ...)."
    `since`: in words, when it was or what it is compared with. `of_long_steps`: what changed is how
    many steps are unusually long.
    """
    if comparison.part is not None:
        return _one_part(comparison, comparison.part, since, causes)
    long = _long_steps(comparison)
    if of_long_steps and long:
        return f"{long[0].upper()}{long[1:]} {since}."
    text = _usual_steps(comparison, since, causes)[:-1]
    if comparison.hides_waiting and named_parts(comparison):
        text += "; what ranks wait for each other may be inside these parts"
    return f"{text}; {long}." if long else f"{text}."


def _one_part(comparison: Comparison, part: Change, since: str, causes: tuple[Cause, ...]) -> str:
    """What a part costs that grew while the noise of the whole step hides it."""
    unit = "points of MFU" if comparison.in_points else "% of a step"
    why = next(
        (f" ({cause.text})" for cause in causes if cause.part == part.name and cause.text), ""
    )
    within = f"({_number(part.low)} to {_number(part.high)})"
    lost = f"{_number(part.points)} {unit} more {within}"
    took = f"{in_ms(part.after_ms)} per step after {in_ms(part.before_ms)}"
    if part.name in LONGEST:
        lost = f"Up to {lost}"
        took += " on the rank that has most, for which the others wait"
    return f"{lost} are lost to {_lower(part.title)} {since}: {took}{why}."


def _usual_steps(comparison: Comparison, since: str, causes: tuple[Cause, ...]) -> str:
    lost = comparison.lost
    if lost.low <= 0 <= lost.high:
        return _as_before(comparison, since)
    low, high = sorted((abs(lost.low), abs(lost.high)))
    by = f"{_number(abs(lost.points))} {{}} ({_number(low)} to {_number(high)})"
    parts = _parts(comparison, causes) if lost.points > 0 else ""
    if comparison.mfu_before is None or comparison.mfu_after is None:
        how = "longer" if lost.points > 0 else "less time"
        return f"Steps take {by.format('%')} {how} {since}{parts}."
    levels = f"from {100 * comparison.mfu_before:.1f} % to {100 * comparison.mfu_after:.1f} %"
    verb = "fell" if lost.points > 0 else "rose"
    return f"MFU {verb} {by.format('points')} {since}, {levels}{parts}."


def _long_steps(comparison: Comparison) -> str:
    """What more unusually long steps cost; empty where they cost no more, within the noise."""
    change = comparison.of(LONG_STEPS)
    if change is None or not change.grew or comparison.long_by is None:
        return ""
    before, after = (
        100 * num / of
        for num, of in (
            (comparison.num_long_before, comparison.num_before),
            (comparison.num_long_after, comparison.num_after),
        )
    )
    unit = "points of MFU" if comparison.in_points else "% of a step"
    title = _lower(title_of(comparison.long_by, comparison.in_points))
    within = f"({_number(change.low)} to {_number(change.high)})"
    return (
        f"unusually long steps ({after:.0f} % of them, after {before:.0f} %) cost "
        f"{_number(change.points)} {unit} more {within}, above all {title}"
    )


def _as_before(comparison: Comparison, since: str) -> str:
    lost = comparison.lost
    if comparison.in_points:
        low, high = _number(-lost.high, "+"), _number(-lost.low, "+")
        change = f"{_number(-lost.points, '+')} points ({low} to {high})"
        return f"MFU did not change beyond its noise {since}: {change}."
    low, high = _number(lost.low, "+"), _number(lost.high, "+")
    change = f"{_number(lost.points, '+')} % ({low} to {high})"
    return f"The step time did not change beyond its noise {since}: {change}."


def _parts(comparison: Comparison, causes: tuple[Cause, ...]) -> str:
    texts = {cause.part: cause.text for cause in causes}
    named = []
    for name in named_parts(comparison):
        change = comparison.of(name)
        assert change is not None
        more = f" ({texts[name]})" if texts.get(name) else ""
        named.append(f"{_lower(change.title)} {_number(change.points, '+')}{more}")
    if not named:
        return "; no single part grew beyond its noise"
    return ": " + ", ".join(named)


def _number(value: float, sign: str = "") -> str:
    """With a second decimal below 1."""
    return f"{value:{sign}.{1 if abs(value) >= 1 else 2}f}"


def _lower(title: str) -> str:
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def since_text(decline: Decline, step_S: list[int]) -> str:
    """ "since step 4,800", "slowly since step 4,800" or "in steps 4,800 to 4,900"."""
    first, last = step_S[decline.first], step_S[decline.after[1]]
    if last != step_S[-1]:
        return f"in {steps_text(first, last)}"
    return f"{'slowly ' if decline.slowly else ''}since step {first:,}"


def steady_text(first: int, last: int, smallest: float) -> str:
    """That there is no decline, and what would have been found."""
    where = steps_text(first, last)
    if first == last:
        return f"No decline can be seen in {where} alone: it takes steps to compare with."
    if math.isnan(smallest):
        return (
            f"No decline is seen in {where}. Among so few steps one is found if they become "
            f"{100 * SHORT_RISE:.0f} % longer for {FEWEST_SHORT} steps, or "
            f"{100 * LEAST_RISE:.0f} % for {FEWEST_STEPS}; others may be there."
        )
    return (
        f"No decline is seen in {where}. Steps that took {100 * smallest:.1f} % longer from the "
        "middle of them on would be found in half of such runs."
    )
