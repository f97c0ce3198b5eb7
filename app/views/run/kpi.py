"""One tile of the overview."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kpi:
    """One tile. `tone`: plain; beyond noise bad or good. `series`: for the sparkline."""

    key: str
    label: str
    value: str
    unit: str
    detail: str
    meaning: str
    tone: str = "plain"
    series: tuple[tuple[int, float], ...] = ()
    baseline: float | None = None
    baseline_text: str = ""
    extra: str = ""
    """the components of the number"""
