"""The tables of benchmarks/machines.py, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from benchmarks.accuracy.intervals import wilson

Z95_NONE = 3.689
"""Expected number of which none is seen with a chance of 2.5 %."""


class Outcome(Protocol):
    """What the tables need of a result."""

    @property
    def method(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def dose(self) -> str: ...  # noqa: D102
    @property
    def num_machines(self) -> int: ...  # noqa: D102
    @property
    def hours(self) -> float: ...  # noqa: D102
    @property
    def found(self) -> bool: ...  # noqa: D102
    @property
    def delay_s(self) -> float: ...  # noqa: D102
    @property
    def num_false(self) -> int: ...  # noqa: D102


def table_of(outcomes: Sequence[Outcome], figures: Mapping[str, Any]) -> str:
    """All tables."""
    methods = list(dict.fromkeys(each.method for each in outcomes))
    by_method = {name: [o for o in outcomes if o.method == name] for name in methods}
    own = by_method[methods[0]]
    num_faults, num_healthy = sum(bool(o.kind) for o in own), sum(not o.kind for o in own)
    lines = [
        f"Seed {figures['seed']}: {num_faults} jobs with a fault, {num_healthy} healthy ones, "
        f"{sum(o.hours for o in own):,.0f} machine-hours; {figures['cpu_min']:.1f} min of CPU.",
        "",
        "| method | precision | recall | F1 | false machines per 1,000 h | delay p50, s | p90, s |",
        "|---|---|---|---|---|---|---|",
        *(_method_row(name, rows) for name, rows in by_method.items()),
        "",
        *_split("fault", own, lambda o: o.kind),
        *_split("dose", own, lambda o: o.dose),
        *_split("machines", own, _size),
    ]
    return "\n".join(lines)


def _method_row(name: str, rows: Sequence[Outcome]) -> str:
    cells = [name, *_scores(rows), _rate(rows), *_delays(rows)]
    return f"| {' | '.join(cells)} |"


def _split(title: str, rows: Sequence[Outcome], key: Callable[[Outcome], str]) -> list[str]:
    faults = [o for o in rows if o.kind]
    parts: dict[str, list[Outcome]] = {}
    for row in sorted(faults, key=lambda o: o.num_machines) if title == "machines" else faults:
        parts.setdefault(key(row), []).append(row)
    ordered = parts if title != "fault" else dict(sorted(parts.items(), key=lambda p: -len(p[1])))
    lines = [
        f"| {title} | jobs | precision | recall | F1 | delay p50, s | p90, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, part in ordered.items():
        cells = [name.replace("_", " "), str(len(part)), *_scores(part), *_delays(part)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _scores(rows: Sequence[Outcome]) -> list[str]:
    found, wrong = sum(o.found for o in rows), sum(o.num_false for o in rows)
    faults = sum(bool(o.kind) for o in rows)
    f1 = 2 * found / max(found + wrong + faults, 1)
    return [_share(found, found + wrong), _share(found, faults), f"{f1:.3f}"]


def _share(part: int, whole: int) -> str:
    if not whole:
        return "-"
    low, high = wilson(part, whole)
    return f"{part / whole:.3f} ({low:.2f}-{high:.2f})"


def _rate(rows: Sequence[Outcome]) -> str:
    """Wrong machines per 1,000 machine-hours, with the exact interval of a count."""
    wrong, hours = sum(o.num_false for o in rows), sum(o.hours for o in rows)
    low, high = _poisson(wrong)
    scale = 1_000 / max(hours, 1e-9)
    return f"{wrong * scale:.2f} ({low * scale:.2f}-{high * scale:.2f})"


def _poisson(number: int) -> tuple[float, float]:
    """95 % interval of the mean of a count (Wilson and Hilferty's approximation of chi square)."""

    def quantile(k: float, z: float) -> float:
        return k * (1 - 1 / (9 * k) + z / (3 * k**0.5)) ** 3

    high = quantile(number + 1, 1.96) if number else Z95_NONE
    return (quantile(number, -1.96) if number else 0.0), high


def _delays(rows: Sequence[Outcome]) -> list[str]:
    delays = [o.delay_s for o in rows if o.found]
    if not delays:
        return ["-", "-"]
    return [f"{statistics.median(delays):.0f}", f"{np.quantile(delays, 0.9):.0f}"]


def _size(row: Outcome) -> str:
    for most, name in ((4, "4"), (8, "5 to 8"), (16, "9 to 16"), (64, "17 to 64")):
        if row.num_machines <= most:
            return name
    return "128 to 1,536"
