"""stalled_updates: steps of the optimizer no longer change the weights, or some of them.

The ratio of update to weight is about 1e-3 in training that works. A group of parameters stalls
where one of these holds in CONSECUTIVE samples in a row:

* the ratio is below what float32 resolves: adding the update gives the same weights again;
* the gradients' rms is at most Adam's eps, which then at least halves Adam's quotient, and so it
  is: the update is at most half of that of other groups in the same step, or the ratio too little;
* the ratio is a thousandth of the usual one or less in all samples of the attempt, without rising
  (a warm-up) or falling (the end of a decay): the learning rate is next to nothing.

Source: Wortsman et al. (arXiv 2309.14322): updates stall where the gradients' rms comes near eps;
1e-3, and too little from 1e-4 on: Karpathy's rule of thumb. Known false positives: layers that are
frozen by a learning rate of 0, an eps that is set lower together with a small learning rate, a
rate of 1e-7 on purpose. Blind spots: training that is only too slow; a stall of 16-bit weights
whose master weights go on; optimizers that were not seen. Gradients that are zero are dead_units'.
Cost: one pass over the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.findings import Evidence, Finding, Verdict
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.rank_tables import Bools, Floats
from diagnosis.statistics.sampled_series import (
    CONSECUTIVE,
    FEWEST_BEFORE,
    Series,
    Stretch,
    lasting,
    named,
    seen,
    series_of,
    severity_of,
    too_few,
)

NAME = "stalled_updates"
KINDS = ("stalled_updates",)
QUESTIONS = ("tensor_health", "steps")

USUAL, TOO_LITTLE = 1e-3, 1e-4
"""Update / weight: Karpathy's rule of thumb."""

RESOLVED = 2.0**-24
"""Relative to a weight, what float32 adds without effect: half a unit in its last place."""

NEXT_TO_NOTHING = USUAL / 1000

ADAM_EPS = 1e-8
"""Its default; Wortsman et al. saw updates vanish where the gradients' rms comes near it."""

MOST_ZERO = 0.5
"""With so many zero gradients it is no small gradient that stalls."""

CHANGING = 2.0
"""A warm-up at least doubles over CONSECUTIVE steps from its first on, a decay to 0 halves at its
end."""


@dataclass(frozen=True)
class _Stalled:
    """One group of parameters that stalled, and by what."""

    layer: int
    name: str
    stretch: Stretch
    at: int  # index of the sample with the median ratio
    ratio: float  # there
    gradient: float  # rms there; NaN where it is not the gradients


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the samples in `tables`; None where no updates were recorded."""
    health = tables["tensor_health"]
    places = ("layer", "name")
    updates = health.filter(pc.equal(health["tensor"], "update"))
    if not updates.num_rows:
        return None
    ratio = series_of(updates, places, "update_ratio")
    if unknown := too_few(NAME, ratio, "tensor"):
        return unknown
    gradients = health.filter(pc.equal(health["tensor"], "gradient"))
    rms_KN = series_of(gradients, places, "rms").like(ratio)
    zero_KN = series_of(gradients, places, "zero_ratio").like(ratio)
    by_eps_KN = _by_eps(ratio.value_KN, series_of(updates, places, "rms").value_KN, rms_KN)
    findings = (
        _stalled(ratio, row, rms_KN[row], by_eps_KN[row], ~(zero_KN[row] >= MOST_ZERO))
        for row in range(len(ratio.keys))
    )
    stalled = [part for part in findings if part is not None]
    if stalled:
        return Verdict(NAME, (_finding(ratio, stalled, tables["steps"], attempt),))
    usual = float(np.nanmedian(ratio.value_KN)) if np.isfinite(ratio.value_KN).any() else np.nan
    return Verdict(
        NAME,
        checked=f"Updates change the weights: the median is {usual:.1e} of the weights' size.",
    )


def _by_eps(ratio_KN: Floats, update_KN: Floats, gradient_KN: Floats) -> Bools:
    """Where gradients are as small as eps, and the update is small for it."""
    is_small_KN = gradient_KN <= ADAM_EPS
    others_N = np.full(ratio_KN.shape[1], np.nan)
    with_others_N = (np.isfinite(update_KN) & ~is_small_KN).any(axis=0)
    if with_others_N.any():
        others_KN = np.where(is_small_KN, np.nan, update_KN)[:, with_others_N]
        others_N[with_others_N] = np.nanmedian(others_KN, axis=0)
    by_eps_KN: Bools = is_small_KN & ((update_KN <= others_N / 2) | (ratio_KN <= TOO_LITTLE))
    return by_eps_KN


def _stalled(
    ratio: Series, row: int, rms_N: Floats, by_eps_N: Bools, is_alive_N: Bools
) -> _Stalled | None:
    ratio_N = ratio.value_KN[row]
    known_N = np.isfinite(ratio_N) & is_alive_N
    stretches = lasting((ratio_N <= RESOLVED) | by_eps_N, known_N)
    stretches = [stretch for stretch in stretches if not _is_warm_up(ratio_N, stretch)]
    whole = _next_to_nothing(ratio_N, known_N)
    if not stretches and whole is None:
        return None
    stretch = Stretch(stretches[0].first, stretches[-1].last) if stretches else whole
    assert stretch is not None
    within = np.arange(stretch.first, stretch.last + 1)
    within = within[known_N[within]]
    low = within[np.argsort(ratio_N[within], kind="stable")[(within.size - 1) // 2]]
    is_eps = bool(by_eps_N[low]) and ratio_N[low] > RESOLVED
    layer, name = ratio.keys[row]
    return _Stalled(
        int(layer),
        str(name),
        stretch,
        int(low),
        float(ratio_N[low]),
        float(rms_N[low]) if is_eps else np.nan,
    )


def _is_warm_up(ratio_N: Floats, stretch: Stretch) -> bool:
    """Whether a stretch from the first sample on is a learning rate that rises from 0."""
    newest = ratio_N[stretch.last]
    begins = not np.isfinite(ratio_N[: stretch.first]).any()
    return bool(begins and newest > 0 and newest >= CHANGING * ratio_N[stretch.first])


def _next_to_nothing(ratio_N: Floats, known_N: Bools) -> Stretch | None:
    """All samples, where the ratio is next to nothing from the first to the last and stays the
    same.
    """
    known = np.flatnonzero(known_N)
    if known.size < FEWEST_BEFORE or (ratio_N[known] > NEXT_TO_NOTHING).any():
        return None
    begin, end = (
        float(np.median(ratio_N[part])) for part in (known[:CONSECUTIVE], known[-CONSECUTIVE:])
    )
    changes = max(begin, end) >= CHANGING * min(begin, end) and max(begin, end) > 0
    return None if changes else Stretch(int(known[0]), int(known[-1]))


def _finding(ratio: Series, stalled: list[_Stalled], steps: pa.Table, attempt: int) -> Finding:
    first, last, ongoing = ratio.extent(part.stretch for part in stalled)
    is_all = len(stalled) == len(ratio.keys)
    where = "all parameters" if is_all else named(part.name for part in stalled)
    worst = min(stalled, key=lambda part: part.ratio)
    by_eps = [part for part in stalled if np.isfinite(part.gradient)]
    why = (
        f"Gradients of {named(by_ep.name for by_ep in by_eps)} are as small as Adam's eps, which "
        "outweighs them."
        if by_eps
        else "The optimizer changes next to nothing." + _rate(steps)
    )
    return Finding(
        kind="stalled_updates",
        attempt=attempt,
        severity=severity_of(ongoing, is_urgent=is_all),
        confidence="high" if worst.ratio <= RESOLVED else "medium",
        title="Updates of the weights stall",
        text=f"Since step {first} a step changes {where} by {worst.ratio:.1e} of their size or "
        f"little more; about {USUAL:.0e} is usual. {why}",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=_evidence(ratio, worst, by_eps, attempt),
        alternatives=(
            "Layers that are frozen on purpose by a learning rate of 0, or a rate as small on "
            "purpose.",
            "An eps that was set lower and a small learning rate: then the gradients are no cause.",
        ),
        next_step="Log the learning rate and look at it in that step; look at the gradients' rms "
        "(question tensor_health) and lower Adam's eps where it is near 1e-8; look whether the "
        "optimizer has these parameters, and whether weights in 16 bits swallow small updates.",
        cause="The optimizer's change is too small to matter to the weights it is added to.",
    )


def _rate(steps: pa.Table) -> str:
    """What the job says of its learning rate."""
    logged = [rate for rate in steps["lr"].to_pylist() if rate is not None and np.isfinite(rate)]
    return f" It logs a learning rate of {logged[-1]:.1e}." if logged else ""


def _evidence(
    ratio: Series, worst: _Stalled, by_eps: list[_Stalled], attempt: int
) -> tuple[Evidence, ...]:
    evidence = [_number(ratio, worst, worst.ratio, "update", attempt)]
    if by_eps:
        least = min(by_eps, key=lambda part: part.gradient)
        evidence.append(_number(ratio, least, least.gradient, "gradient", attempt))
    return tuple(evidence)


def _number(ratio: Series, stalled: _Stalled, number: float, tensor: str, attempt: int) -> Evidence:
    step = int(ratio.step_N[stalled.at])
    params = question_params(step, step, attempt, tensor=tensor, layer=stalled.layer)
    column = {"update": "update_ratio", "gradient": "rms"}
    view = seen(attempt, tensor, column[tensor], stalled.layer, stalled.name)
    what = {
        "update": f"the update of {stalled.name} is {number:.2e} of its weights (rms)",
        "gradient": f"the gradients of {stalled.name} have an rms of {number:.2e}",
    }
    unit = {"update": "ratio", "gradient": "rms"}
    sentence = f"In step {step} {what[tensor]}."
    return Evidence(sentence, number, unit[tensor], "tensor_health", params, view)
