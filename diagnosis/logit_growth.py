"""logit_growth: the greatest attention logit of a head grows out of bounds.

A head is found where its logit stays above one of LEVELS that it was below before, by more than its
noise; above DIVERGES it needs no past. A model whose heads lie above a level from the first look on
and cross none is silent.

Source: Wortsman et al. (arXiv 2309.14322): all runs with logits above 1e4 diverged. Kimi K2 (arXiv
2507.20534): QK-clip rescales queries and keys of heads above 100; without it logits quickly passed
1000, with spikes and divergence. Known false positives: heads that grow to some hundred and settle
there. Blind spots: rows between those that were looked at (docs/hooks.md), attention that was not
seen, growth below 100 or between two levels. Cost: one pass over the heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.looks import (
    STAYS,
    Series,
    Stretch,
    lasting,
    named,
    rises_above,
    seen,
    series_of,
    severity_of,
)

NAME = "logit_growth"
QUESTIONS = ("attention_health",)
HEAD = ("layer", "head", "name")

DIVERGES = 1e4
"""Wortsman et al.: above it runs diverged."""

CLIPPED = 100.0
"""QK-clip's threshold."""

LEVELS = (CLIPPED, 1e3, DIVERGES)

LEAST = 1e-6
"""Logits below are taken for it: their logarithm is meant."""


@dataclass(frozen=True)
class _Grown:
    """One head whose logits grew."""

    layer: int
    head: int
    stretch: Stretch
    greatest: float
    at: int  # index of that look
    before: float  # median of the looks before the stretch; NaN where there is none


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the looks in `tables`; None where no attention statistics were recorded."""
    heads = tables["attention_health"]
    if not heads.num_rows:
        return None
    series = series_of(heads, HEAD, "max_logit")
    num_looks = series.step_N.size
    if num_looks < STAYS:
        said = f"{num_looks} steps with attention statistics are too few: {STAYS} are needed."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, said),))
    grown = [one for row in range(len(series.keys)) if (one := _grown(series, row))]
    if grown:
        return Verdict(NAME, (_finding(series, grown, attempt),))
    known = series.value_KN[np.isfinite(series.value_KN)]
    greatest = f"at most {known.max():.3g}" if known.size else "not known"
    return Verdict(
        NAME,
        checked=f"No attention logit of {len(series.keys)} heads grows out of bounds, in "
        f"{num_looks} steps looked at; they are {greatest}.",
    )


def _grown(series: Series, row: int) -> _Grown | None:
    logit_N = series.value_KN[row]
    known_N = np.isfinite(logit_N)
    log_N = np.log(np.maximum(logit_N, LEAST))
    crossed = (rises_above(log_N, math.log(level)) for level in LEVELS)
    stretch = next((one for one in crossed if one is not None), None)
    if stretch is None:
        found = lasting(logit_N > DIVERGES, known_N)
        if not found:
            return None
        stretch = Stretch(found[0].first, found[-1].last)
    at = stretch.first + int(np.nanargmax(logit_N[stretch.first : stretch.last + 1]))
    before = logit_N[: stretch.first][known_N[: stretch.first]]
    layer, head, _ = series.keys[row]
    usual = float(np.median(before)) if before.size else np.nan
    return _Grown(int(layer), int(head), stretch, float(logit_N[at]), at, usual)


def _finding(series: Series, grown: list[_Grown], attempt: int) -> Finding:
    step_N = series.step_N
    begin = min(one.stretch.first for one in grown)
    end = max(one.stretch.last for one in grown)
    first, last = int(step_N[begin]), int(step_N[end])
    worst = max(grown, key=lambda one: one.greatest)
    ongoing = not Stretch(begin, end).is_over(step_N.size)
    diverges = worst.greatest > DIVERGES
    before = f", {worst.before:.3g} before" if np.isfinite(worst.before) else ""
    bound = (
        f"runs above {DIVERGES:.0e} diverged" if diverges
        else f"QK-clip acts from {CLIPPED:.0f} on"
    )  # fmt: skip
    heads = named(f"layer {one.layer} head {one.head}" for one in grown)
    return Finding(
        kind="logit_growth", attempt=attempt, severity=severity_of(ongoing, is_urgent=diverges),
        confidence="high" if diverges else "medium", title="Attention logits grow",
        text=f"Since step {first} the greatest logit of {heads} is up to {worst.greatest:.3g}"
        f"{before}; {bound}.",
        culprits=(), victims=(), first_step=first, last_step=last, ongoing=ongoing, slowdown=None,
        cost=None, evidence=(_evidence(series, worst, attempt),),
        alternatives=(
            "Heads that settle at sharp attention on purpose: see whether the logit still grows.",
            "One damaged weight of queries or keys (silent_corruption): one head alone, at once.",
        ),
        next_step="Look at the logits of these heads over the steps (question attention_health); "
        "clip queries and keys (QK-clip), normalise them (QK-norm), or lower the learning rate of "
        "their weights before the loss spikes.",
        cause="Queries and keys grow, so the softmax sharpens until no gradient passes it.",
    )  # fmt: skip


def _evidence(series: Series, one: _Grown, attempt: int) -> Evidence:
    step = int(series.step_N[one.at])
    asked = (
        ("step_min", step), ("step_max", step), ("layer", one.layer), ("head", one.head),
        ("attempt", attempt),
    )  # fmt: skip
    view = seen(attempt, "heads", "max_logit", one.layer, "", one.head)
    return Evidence(
        f"In step {step} the greatest logit of layer {one.layer} head {one.head} is "
        f"{one.greatest:.4g}.",
        one.greatest, "logit", "attention_health", asked, view,
    )  # fmt: skip
