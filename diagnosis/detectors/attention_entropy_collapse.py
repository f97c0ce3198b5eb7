"""attention_entropy_collapse: heads attend to one token alone, and did not before.

A head has collapsed where its entropy stays at or below ONE_TOKEN after it lay above by more than
its noise; or where all heads of a layer lie below it in all samples, which no initialisation gives.

Source: Zhai et al. (arXiv 2303.06296): the entropy of attention falls to nearly 0 with, or right
before, training that becomes unstable. They give no number: ONE_TOKEN is the entropy of 99 % on one
token, where the softmax passes a hundredth of the gradient on (p (1 - p)). Known false positives:
heads that learn to copy one place (the token before) so strictly. Blind spots: heads that were so
from the first sample on while others of their layer are not; rows between those sampled. Cost: one
pass over the heads.
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
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.sampled_series import (
    CONSECUTIVE,
    Series,
    begins_above,
    lasting,
    named,
    rises_above,
    severity_of,
    too_few,
)

NAME = "attention_entropy_collapse"
KINDS = ("attention_entropy_collapse",)
QUESTIONS = ("attention_health",)

ONE_TOKEN = -(0.99 * math.log(0.99) + 0.01 * math.log(0.01))
"""Nats, 0.056: 99 % of the attention on one token, the rest on another."""

LEAST = 1e-12
"""Entropies below are taken for it: their logarithm is meant."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the samples in `tables`; None where no attention statistics were recorded."""
    series = head_series(tables, "entropy")
    if series is None:
        return None
    if unknown := too_few(NAME, series, "attention"):
        return unknown
    collapsed = _collapsed(series)
    if collapsed:
        return Verdict(NAME, (_finding(series, collapsed, attempt),))
    checked = f"No head of {len(series.keys)} falls to an entropy of {ONE_TOKEN:.3f} nats"
    checked = f"{checked}, in {series.step_N.size} sampled steps."
    return Verdict(NAME, checked=checked, set_aside=_noted(series))


def _noted(series: Series) -> tuple[str, ...]:
    """Heads that are on one token from the start, while others of their layer are not."""
    sharp_KN = -np.log(np.maximum(series.value_KN, LEAST))
    level = -math.log(ONE_TOKEN)
    rows = [row for row, sharp_N in enumerate(sharp_KN) if begins_above(sharp_N, level)]
    if not rows:
        return ()
    heads = [series.keys[row] for row in rows]
    where = named(f"layer {layer} head {head}" for layer, head, _ in heads)
    return (
        f"From the first sampled step on the attention of {where} is on one token alone: no sample "
        "before shows what is usual, so it may have collapsed, or have learned to copy one place.",
    )


def _collapsed(series: Series) -> list[OffHead]:
    """Heads that fell, and all heads of the layers that never were above."""
    sharp_KN = -np.log(np.maximum(series.value_KN, LEAST))  # NaN stays NaN
    level = -math.log(ONE_TOKEN)
    stretches = [rises_above(sharp_N, level) for sharp_N in sharp_KN]
    layer_K = np.array([key[0] for key in series.keys])
    always_K = np.array([_always(sharp_N, level) for sharp_N in sharp_KN])
    for layer in np.unique(layer_K[always_K]):
        rows = np.flatnonzero(layer_K == layer)
        if always_K[rows].all():
            for row in rows.tolist():
                known_N = np.isfinite(sharp_KN[row])
                stretches[row] = lasting(known_N, known_N)[0]
    return [
        off_head(series, row, stretch, np.nanargmin)
        for row, stretch in enumerate(stretches)
        if stretch is not None
    ]


def _always(sharp_N: Floats, level: float) -> bool:
    known = sharp_N[np.isfinite(sharp_N)]
    return known.size >= CONSECUTIVE and bool((known >= level).all())


def _finding(series: Series, heads: list[OffHead], attempt: int) -> Finding:
    first, last, ongoing = series.extent(head.stretch for head in heads)
    worst = min(heads, key=lambda head: head.value)
    is_layer = _has_whole_layer(series, heads)
    before = f", {worst.before:.2f} before" if np.isfinite(worst.before) else ""
    evidence = evidence_of(
        series,
        worst,
        attempt,
        "entropy",
        f"the entropy of layer {worst.layer} head {worst.head} is {worst.value:.3g} nats.",
        "nats",
    )
    return Finding(
        kind="attention_entropy_collapse",
        attempt=attempt,
        severity=severity_of(ongoing, is_urgent=is_layer),
        confidence="high" if is_layer else "medium",
        title="Attention collapses to single tokens",
        text=f"Since step {first} the attention of {named_heads(heads)} is on one token alone: "
        f"its entropy is down to {worst.value:.2g} nats{before}.",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=(evidence,),
        alternatives=(
            "Heads that learned to copy one place strictly: few of them, and the loss falls.",
            "Batches of very short or padded sequences: look at the lengths in these steps.",
        ),
        next_step="Look at the heads' logits (question attention_health): they grow where queries "
        "and keys do. Normalise queries and keys, reparametrise their weights (sigma-Reparam), or "
        "lower the learning rate, from the checkpoint before.",
        cause="The softmax of these heads is saturated, so their queries and keys learn nothing.",
    )


def _has_whole_layer(series: Series, heads: list[OffHead]) -> bool:
    """Whether all heads of a layer, at least two, have collapsed."""
    every = [key[0] for key in series.keys]
    fallen = [head.layer for head in heads]
    return any(fallen.count(layer) == every.count(layer) > 1 for layer in set(fallen))
