"""Medians and quartiles of what was measured several times."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile; of one value three times that."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, median(values), high


def in_words(values: Sequence[float], unit: str = "") -> str:
    """For a note: how far they spread and how many they are."""
    low, _, high = quartiles(values)
    text = f"quartiles {low:.4g} to {high:.4g}, worst {max(values):.4g}"
    return f"{text} {unit}".rstrip() + f", {len(values)} values"
