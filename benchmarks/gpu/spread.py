"""Medians and quartiles of repeated measurements."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles
from typing import NamedTuple


class Spread(NamedTuple):
    """Quartiles, the greatest value, and how many values there are."""

    low: float
    median: float
    high: float
    most: float
    num: int

    def in_words(self, unit: str = "", what: str = "values") -> str:
        """For a note."""
        text = f"quartiles {self.low:.4g} to {self.high:.4g}, most {self.most:.4g}"
        return f"{text} {unit}".rstrip() + f"; {self.num} {what}"


def spread(values: Sequence[float]) -> Spread:
    """The spread of one or more values; raises ValueError without any."""
    if not values:
        raise ValueError("nothing was measured")
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], values[0], 1)
    low, median, high = quantiles(values, n=4, method="inclusive")
    return Spread(low, median, high, max(values), len(values))
