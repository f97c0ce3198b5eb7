"""attention_entropy_collapse: heads attend to one token alone, and did not before.

A head has collapsed where its entropy stays at or below ONE_TOKEN after it lay above by more than
its noise; or where all heads of a layer lie below it in all looks, which no initialisation gives.

Source: Zhai et al. (arXiv 2303.06296): the entropy of attention falls to nearly 0 with, or right
before, training that becomes unstable. They give no number: ONE_TOKEN is the entropy of 99 % on one
token, where the softmax passes a hundredth of the gradient on (p (1 - p)). Known false positives:
heads that learn to copy one place (the token before) so strictly. Blind spots: heads that were so
from the first look on while others of their layer are not; rows between those looked at. Cost: one
pass over the heads.
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
from diagnosis.peers import Floats

NAME = "attention_entropy_collapse"
QUESTIONS = ("attention_health",)
HEAD = ("layer", "head", "name")

ONE_TOKEN = -(0.99 * math.log(0.99) + 0.01 * math.log(0.01))
"""Nats, 0.056: 99 % of the attention on one token, the rest on another."""

LEAST = 1e-12
"""Entropies below are taken for it: their logarithm is meant."""


@dataclass(frozen=True)
class _Collapsed:
    """One head that collapsed."""

    layer: int
    head: int
    stretch: Stretch
    least: float
    at: int  # index of that look
    before: float  # median of the looks before; NaN where there is none


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the looks in `tables`; None where no attention statistics were recorded."""
    heads = tables["attention_health"]
    if not heads.num_rows:
        return None
    series = series_of(heads, HEAD, "entropy")
    num_looks = series.step_N.size
    if num_looks < STAYS:
        said = f"{num_looks} steps with attention statistics are too few: {STAYS} are needed."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, said),))
    found = _collapsed(series)
    if found:
        return Verdict(NAME, (_finding(series, found, attempt),))
    checked = f"No head of {len(series.keys)} falls to an entropy of {ONE_TOKEN:.3f} nats"
    return Verdict(NAME, checked=f"{checked}, in {num_looks} steps looked at.")


def _collapsed(series: Series) -> list[_Collapsed]:
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
    return [_head(series, row, s) for row, s in enumerate(stretches) if s is not None]


def _always(sharp_N: Floats, level: float) -> bool:
    known = sharp_N[np.isfinite(sharp_N)]
    return known.size >= STAYS and bool((known >= level).all())


def _head(series: Series, row: int, stretch: Stretch) -> _Collapsed:
    entropy_N = series.value_KN[row]
    at = stretch.first + int(np.nanargmin(entropy_N[stretch.first : stretch.last + 1]))
    before = entropy_N[: stretch.first]
    before = before[np.isfinite(before)]
    layer, head, _ = series.keys[row]
    usual = float(np.median(before)) if before.size else np.nan
    return _Collapsed(int(layer), int(head), stretch, float(entropy_N[at]), at, usual)


def _finding(series: Series, found: list[_Collapsed], attempt: int) -> Finding:
    step_N = series.step_N
    begin = min(one.stretch.first for one in found)
    end = max(one.stretch.last for one in found)
    first, last = int(step_N[begin]), int(step_N[end])
    worst = min(found, key=lambda one: one.least)
    ongoing = not Stretch(begin, end).is_over(step_N.size)
    is_layer = _has_whole_layer(series, found)
    before = f", {worst.before:.2f} before" if np.isfinite(worst.before) else ""
    heads = named(f"layer {one.layer} head {one.head}" for one in found)
    return Finding(
        kind="attention_entropy_collapse", attempt=attempt,
        severity=severity_of(ongoing, is_urgent=is_layer),
        confidence="high" if is_layer else "medium", title="Attention collapses to single tokens",
        text=f"Since step {first} the attention of {heads} is on one token alone: its entropy is "
        f"down to {worst.least:.2g} nats{before}.",
        culprits=(), victims=(), first_step=first, last_step=last, ongoing=ongoing, slowdown=None,
        cost=None, evidence=(_evidence(series, worst, attempt),),
        alternatives=(
            "Heads that learned to copy one place strictly: few of them, and the loss falls.",
            "Batches of very short or padded sequences: look at the lengths in these steps.",
        ),
        next_step="Look at the heads' logits (question attention_health): they grow where queries "
        "and keys do. Normalise queries and keys, reparametrise their weights (sigma-Reparam), or "
        "lower the learning rate, from the checkpoint before.",
        cause="The softmax of these heads is saturated, so their queries and keys learn nothing.",
    )  # fmt: skip


def _has_whole_layer(series: Series, found: list[_Collapsed]) -> bool:
    """Whether all heads of a layer, at least two, have collapsed."""
    every = [key[0] for key in series.keys]
    fallen = [one.layer for one in found]
    return any(fallen.count(layer) == every.count(layer) > 1 for layer in set(fallen))


def _evidence(series: Series, one: _Collapsed, attempt: int) -> Evidence:
    step = int(series.step_N[one.at])
    asked = (
        ("step_min", step), ("step_max", step), ("layer", one.layer), ("head", one.head),
        ("attempt", attempt),
    )  # fmt: skip
    view = seen(attempt, "heads", "entropy", one.layer, "", one.head)
    return Evidence(
        f"In step {step} the entropy of layer {one.layer} head {one.head} is {one.least:.3g} nats.",
        one.least, "nats", "attention_health", asked, view,
    )  # fmt: skip
