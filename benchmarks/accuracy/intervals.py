"""Intervals of shares, 95 % and two-sided."""

from __future__ import annotations

import math
from collections.abc import Callable

_TAIL, _Z = 0.025, 1.959964
_HALVINGS = 100


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Wilson's score interval; 0 to 1 of nothing."""
    if not whole:
        return 0.0, 1.0
    share, z2 = part / whole, _Z**2
    middle = share + z2 / (2 * whole)
    reach = _Z * math.sqrt(share * (1 - share) / whole + z2 / (4 * whole**2))
    return max((middle - reach) / (1 + z2 / whole), 0.0), min(
        (middle + reach) / (1 + z2 / whole), 1.0
    )


def of_f1(found: int, wrong: int) -> tuple[float, float]:
    """Of F1, `wrong`: missed and false together. It grows with found / (found + wrong), a share."""
    low, high = wilson(found, found + wrong)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def clopper_pearson(part: int, whole: int) -> tuple[float, float]:
    """The exact interval, for few hits of many; 0 to 1 of nothing."""
    if not whole:
        return 0.0, 1.0
    low = 0.0 if part == 0 else _where(lambda p: 1 - _at_most(part - 1, whole, p), True)
    high = 1.0 if part == whole else _where(lambda p: _at_most(part, whole, p), False)
    return low, high


def _where(tail: Callable[[float], float], grows: bool) -> float:
    """The share at which a tail probability that grows (or falls) with it is _TAIL."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (tail(middle) < _TAIL) == grows:
            low = middle
        else:
            high = middle
    return high


def _at_most(hits: int, whole: int, share: float) -> float:
    """Probability of that many hits or fewer."""
    if share <= 0 or share >= 1:
        return float(share <= 0)
    logs = [
        math.lgamma(whole + 1)
        - math.lgamma(k + 1)
        - math.lgamma(whole - k + 1)
        + k * math.log(share)
        + (whole - k) * math.log1p(-share)
        for k in range(hits + 1)
    ]
    return min(sum(map(math.exp, logs)), 1.0)
