"""logit_growth: the greatest attention logit of a head grows out of bounds.

A head is found where its logit stays above one of LEVELS that it was below before, by more than its
noise; above DIVERGES it needs no past. A model whose heads lie above a level from the first sample
on and cross none is silent.

Source: Wortsman et al. (arXiv 2309.14322): all runs with logits above 1e4 diverged. Kimi K2 (arXiv
2507.20534): QK-clip rescales queries and keys of heads above 100; without it logits quickly passed
1000, with spikes and divergence. Known false positives: heads that grow to some hundred and settle
there. Blind spots: rows between those that were sampled (docs/hooks.md), attention that was not
seen, growth below 100 or between two levels. Cost: one pass over the heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.findings import Finding, Verdict
from diagnosis.statistics.attention_heads import (
    OffHead,
    evidence_of,
    head_series,
    named_heads,
    off_head,
)
from diagnosis.statistics.sampled_series import (
    Series,
    Stretch,
    lasting,
    rises_above,
    severity_of,
    too_few,
)

NAME = "logit_growth"
KINDS = ("logit_growth",)
QUESTIONS = ("attention_health",)

DIVERGES = 1e4
"""Wortsman et al.: above it runs diverged."""

CLIPPED = 100.0
"""QK-clip's threshold."""

LEVELS = (CLIPPED, 1e3, DIVERGES)

LEAST = 1e-6
"""Logits below are taken for it: their logarithm is meant."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the samples in `tables`; None where no attention statistics were recorded."""
    series = head_series(tables, "max_logit")
    if series is None:
        return None
    if unknown := too_few(NAME, series, "attention"):
        return unknown
    grown = [head for row in range(len(series.keys)) if (head := _grown(series, row))]
    if grown:
        return Verdict(NAME, (_finding(series, grown, attempt),))
    known = series.value_KN[np.isfinite(series.value_KN)]
    greatest = f"at most {known.max():.3g}" if known.size else "not known"
    return Verdict(
        NAME,
        checked=f"No attention logit of {len(series.keys)} heads grows out of bounds, in "
        f"{series.step_N.size} sampled steps; they are {greatest}.",
    )


def _grown(series: Series, row: int) -> OffHead | None:
    logit_N = series.value_KN[row]
    log_N = np.log(np.maximum(logit_N, LEAST))
    crossed = (rises_above(log_N, math.log(level)) for level in LEVELS)
    stretch = next((begun for begun in crossed if begun is not None), None)
    if stretch is None:
        diverging = lasting(logit_N > DIVERGES, np.isfinite(logit_N))
        if not diverging:
            return None
        stretch = Stretch(diverging[0].first, diverging[-1].last)
    return off_head(series, row, stretch, np.nanargmax)


def _finding(series: Series, grown: list[OffHead], attempt: int) -> Finding:
    first, last, ongoing = series.extent(head.stretch for head in grown)
    worst = max(grown, key=lambda head: head.value)
    diverges = worst.value > DIVERGES
    before = f", {worst.before:.3g} before" if np.isfinite(worst.before) else ""
    bound = (
        f"runs above {DIVERGES:.0e} diverged" if diverges else f"QK-clip acts from {CLIPPED:.0f} on"
    )
    evidence = evidence_of(
        series,
        worst,
        attempt,
        "max_logit",
        f"the greatest logit of layer {worst.layer} head {worst.head} is {worst.value:.4g}.",
        "logit",
    )
    return Finding(
        kind="logit_growth",
        attempt=attempt,
        severity=severity_of(ongoing, is_urgent=diverges),
        confidence="high" if diverges else "medium",
        title="Attention logits grow",
        text=f"Since step {first} the greatest logit of {named_heads(grown)} is up to "
        f"{worst.value:.3g}{before}; {bound}.",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=(evidence,),
        alternatives=(
            "Heads that settle at sharp attention on purpose: see whether the logit still grows.",
            "One damaged weight of queries or keys (silent corruption): one head alone, at once.",
        ),
        next_step="Look at the logits of these heads over the steps (question attention_health); "
        "clip queries and keys (QK-clip), normalise them (QK-norm), or lower the learning rate of "
        "their weights before the loss spikes.",
        cause="Queries and keys grow, so the softmax sharpens until no gradient passes it.",
    )
