"""dead_units: most units of an attention or MLP are zero for every token of the batch, and stay so.

Detected by zeros in what such a module returns, and in the gradients of its parameters: a unit that
is zero for the whole batch passes none on, so that the share of zero gradients is the share of
units that are dead over the batch, of all replicas together.

Source: half of a layer's units is the alarm of Amazon SageMaker Debugger's rule DeadRelu
(threshold_layer); and the share was below it before, by more than its noise. Without a past only a
module counts that returned nothing but zeros in every sampled step. A smaller share is no fault:
large models that train well have dead units, too (Voita et al., arXiv 2309.04827). Known false
positives: parts that are switched off on purpose from some step on; gradients that vanish in 16
bits. Blind spots: units that were dead from the first step on, rectifiers that are small and not
zero, single experts (an MLP's are judged together). Cost: one pass over the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.sampled_series import (
    Series,
    Stretch,
    begins_above,
    lasting,
    named,
    rises_above,
    seen,
    series_of,
    severity_of,
    too_few,
)

NAME = "dead_units"
KINDS = ("dead_units",)
QUESTIONS = ("tensor_health",)

DEAD_SHARE = 0.5
"""Of a layer's units: the default of SageMaker Debugger's DeadRelu."""

OUTPUTS = ("attention", "mlp")
IN_WORDS = {
    "attention": "what {} returns",
    "mlp": "what {} returns",
    "gradient": "the gradients of {}",
}


@dataclass(frozen=True)
class _Dead:
    """One module or group of parameters that died."""

    layer: int
    tensor: str
    name: str
    stretch: Stretch
    share: float  # greatest within it
    at: int  # index of that sample


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the samples in `tables`; None where no statistics of layers were recorded."""
    health = tables["tensor_health"]
    wanted = pc.is_in(health["tensor"], pa.array([*OUTPUTS, "gradient"]))
    health = health.filter(pc.and_(wanted, pc.greater_equal(health["layer"], 0)))
    if not health.num_rows:
        return None
    series = series_of(health, ("layer", "tensor", "name"), "zero_ratio")
    if unknown := too_few(NAME, series, "tensor"):
        return unknown
    dead = [part for row in range(len(series.keys)) if (part := _dead(series, row))]
    if dead:
        return Verdict(NAME, (_finding(series, dead, attempt),))
    checked = (
        f"Attention, MLPs and their gradients have fewer than {100 * DEAD_SHARE:.0f} % zeros, or "
        f"no more than before, in {series.step_N.size} sampled steps."
    )
    return Verdict(NAME, checked=checked, set_aside=_noted(series))


def _noted(series: Series) -> tuple[str, ...]:
    """What may be dead, and may have been so from the start."""
    share_KN = series.value_KN
    rows = [row for row, share_N in enumerate(share_KN) if begins_above(share_N, DEAD_SHARE)]
    if not rows:
        return ()
    where = named(_words(tensor, name) for _, tensor, name in (series.keys[row] for row in rows))
    most = float(np.nanmax(share_KN[rows]))
    return (
        f"From the first sampled step on there are up to {most:.0%} zeros in {where}: no sample "
        "before shows what is usual, so these units may be dead, or meant to be so.",
    )


def _dead(series: Series, row: int) -> _Dead | None:
    share_N, (layer, tensor, name) = series.value_KN[row], series.keys[row]
    stretch = rises_above(share_N, DEAD_SHARE)
    if stretch is None and tensor in OUTPUTS and bool((share_N[np.isfinite(share_N)] == 1).all()):
        whole = lasting(share_N == 1, np.isfinite(share_N))
        stretch = whole[0] if whole else None
    if stretch is None:
        return None
    within_N = share_N[stretch.first : stretch.last + 1]
    at = stretch.first + int(np.nanargmax(within_N))
    return _Dead(int(layer), str(tensor), str(name), stretch, float(share_N[at]), at)


def _words(tensor: str, name: str) -> str:
    return IN_WORDS[tensor].format(name)


def _finding(series: Series, dead: list[_Dead], attempt: int) -> Finding:
    first, last, ongoing = series.extent(part.stretch for part in dead)
    worst = max(dead, key=lambda part: (part.tensor in OUTPUTS, part.share))
    layers = sorted({part.layer for part in dead})
    where = named(
        _words(part.tensor, part.name) for part in sorted(dead, key=lambda part: part.layer)
    )
    return Finding(
        kind="dead_units",
        attempt=attempt,
        severity=severity_of(ongoing, is_urgent=True),
        confidence="high" if worst.share == 1 or worst.tensor in OUTPUTS else "medium",
        title=f"Units of layer {layers[0]} are dead"
        if len(layers) == 1
        else f"Units of {len(layers)} layers are dead",
        text=f"Since step {first} there are up to {worst.share:.0%} zeros in {where}. These units "
        "give nothing for any token of the batch, and learn nothing.",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=tuple(_evidence(series, part, attempt) for part in _worst(dead)),
        alternatives=(
            "Parts that are switched off on purpose: frozen by masks, pruned, experts without "
            "tokens.",
            "Gradients too small for their 16 bits: compare the loss scale with that of the steps "
            "before.",
        ),
        next_step="Look at weights and biases of the layer around that step (question "
        "tensor_health): a large update or learning rate drives units below their rectifier for "
        "good. Go back to the checkpoint before, with a lower rate or a warm-up.",
        cause="Units of the layer are zero for every token, so no gradient brings them back.",
    )


def _worst(dead: list[_Dead]) -> list[_Dead]:
    """The worst of each tensor."""
    return [
        max((part for part in dead if part.tensor == tensor), key=lambda part: part.share)
        for tensor in dict.fromkeys(part.tensor for part in dead)
    ]


def _evidence(series: Series, dead: _Dead, attempt: int) -> Evidence:
    step = int(series.step_N[dead.at])
    params = question_params(step, step, attempt, tensor=dead.tensor, layer=dead.layer)
    view = seen(attempt, dead.tensor, "zero_ratio", dead.layer, dead.name)
    return Evidence(
        f"In step {step} the share of zeros in {_words(dead.tensor, dead.name)} is "
        f"{dead.share:.1%}.",
        round(dead.share, 6),
        "share",
        "tensor_health",
        params,
        view,
    )
