"""The change between two windows of steps in a sentence."""

from __future__ import annotations

import math

from diagnosis.mfu.change_point import Decline
from diagnosis.mfu.comparison import Comparison
from diagnosis.mfu.explain import Cause, named_parts
from diagnosis.statistics.units import steps_text


def sentence(comparison: Comparison, since: str, causes: tuple[Cause, ...] = ()) -> str:
    """ "MFU fell 2.7 points (2.1 to 3.3) since step 4,800, from 41.2 % to 38.5 %: waiting for other
    ranks +1.9 (launch skew by ...), DP communication +0.6 (above all reduce_scatter, ...)."
    `since`: in words, when it was or what it is compared with.
    """
    lost = comparison.lost
    if lost.low <= 0 <= lost.high:
        return _as_before(comparison, since)
    low, high = sorted((abs(lost.low), abs(lost.high)))
    by = f"{abs(lost.points):.1f} {{}} ({low:.1f} to {high:.1f})"
    parts = _parts(comparison, causes) if lost.points > 0 else ""
    if comparison.mfu_before is None or comparison.mfu_after is None:
        how = "longer" if lost.points > 0 else "less"
        return f"Steps take {by.format('%')} {how} {since}{parts}."
    levels = f"from {100 * comparison.mfu_before:.1f} % to {100 * comparison.mfu_after:.1f} %"
    verb = "fell" if lost.points > 0 else "rose"
    return f"MFU {verb} {by.format('points')} {since}, {levels}{parts}."


def _as_before(comparison: Comparison, since: str) -> str:
    lost = comparison.lost
    if comparison.in_points:
        change = f"{-lost.points:+.1f} points ({-lost.high:+.1f} to {-lost.low:+.1f})"
        return f"MFU did not change beyond its noise {since}: {change}."
    change = f"{lost.points:+.1f} % ({lost.low:+.1f} to {lost.high:+.1f})"
    return f"The step time did not change beyond its noise {since}: {change}."


def _parts(comparison: Comparison, causes: tuple[Cause, ...]) -> str:
    texts = {cause.part: cause.text for cause in causes}
    named = []
    for name in named_parts(comparison):
        change = comparison.of(name)
        assert change is not None
        title = change.title if change.title[:2].isupper() else _lower(change.title)
        more = f" ({texts[name]})" if texts.get(name) else ""
        named.append(f"{title} {change.points:+.1f}{more}")
    if not named:
        return "; no single part grew beyond its noise"
    return ": " + ", ".join(named)


def _lower(title: str) -> str:
    return title[0].lower() + title[1:]


def since_text(decline: Decline, step_S: list[int]) -> str:
    """ "since step 4,800", "slowly since step 4,800" or "in steps 4,800 to 4,900"."""
    first, last = step_S[decline.first], step_S[decline.after[1]]
    if last != step_S[-1]:
        return f"in {steps_text(first, last)}"
    return f"{'slowly ' if decline.slowly else ''}since step {first:,}"


def steady_text(first: int, last: int, smallest: float) -> str:
    """That there is no decline, and what would have been found."""
    where = steps_text(first, last)
    if math.isnan(smallest):
        return f"No decline is seen in {where}; they are too few to find small ones."
    return (
        f"No decline is seen in {where}. Steps that took {100 * smallest:.1f} % longer from the "
        "middle of them on would be found in half of such runs."
    )
