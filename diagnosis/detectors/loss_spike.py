"""loss_spike: the loss, or the norm of the gradients, is suddenly several times what it was.

A step spikes where its value is at least FACTOR times the median of the last HISTORY steps that do
not spike, and beyond the noise of these. A loss that stays up goes on spiking: it is compared with
what it was before. What is not finite is nonfinite's.

Source: a loss or gradient norm of five times its level is the alarm of ByteRobust (2509.16293).
Assumes: the job logs them (tracer.log), and losses are above 0. Known false positives: another loss
from some step on (a phase of training with other data or weights of its terms). Blind spots: the
first steps of an attempt, slow divergence, spikes below the factor, most silent errors: losses and
gradient norms show 2 of 20 (TrainCheck, OSDI 2025). Cost: one pass over the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.statistics.episodes import OVER_AFTER_STEPS
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.rank_tables import Bools, Floats, Ints

NAME = "loss_spike"
KINDS = ("loss_spike",)
QUESTIONS = ("steps",)

FACTOR = 5.0
"""ByteRobust's alarm."""

HISTORY = 20
"""Steps whose median is the level; half of them are needed before anything is judged."""

BEYOND_NOISE = 6 * 1.4826
"""And so many MAD of the logarithms: six sigma of Gaussian noise, none in 1e8 healthy steps."""

VALUES = {"loss": "the loss", "grad_norm": "the gradient norm"}
"""Column of the question: what it is called."""


@dataclass(frozen=True)
class _Spikes:
    """Which steps spike in one value, and by how much at most."""

    column: str
    is_spike_S: Bools
    greatest: float  # x the level
    at: int  # index of that step


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`; None where the job logs neither loss nor gradient norm."""
    steps = tables["steps"]
    step_S: Ints = steps["step"].to_numpy().astype(np.int64)
    logged = {name: _values(steps, name) for name in VALUES}
    logged = {name: value_S for name, value_S in logged.items() if np.isfinite(value_S).any()}
    if not logged:
        return None
    if step_S.size <= HISTORY // 2:
        few = "1 step is" if step_S.size == 1 else f"{step_S.size} steps are"
        reason = f"{few} too few to know the usual loss: {HISTORY // 2 + 1} are needed."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    findings = [spikes for name, value_S in logged.items() if (spikes := _spikes(name, value_S))]
    if not findings:
        named = " or ".join(VALUES[name] for name in logged)
        checked = f"In no step is {named} {FACTOR:.0f} times its earlier level."
        return Verdict(NAME, checked=checked)
    return Verdict(NAME, (_finding(step_S, findings, attempt),))


def _values(steps: pa.Table, name: str) -> Floats:
    return np.array([np.nan if v is None else v for v in steps[name].to_pylist()], dtype=np.float64)


def _spikes(column: str, value_S: Floats) -> _Spikes | None:
    is_spike_S = np.zeros(value_S.size, dtype=np.bool_)
    calm: list[float] = []
    greatest, at = 0.0, 0
    for index, value in enumerate(value_S):
        if not (np.isfinite(value) and value > 0):
            continue
        times = _times_level(calm[-HISTORY:], float(value))
        if times is None:
            calm.append(float(value))
            continue
        is_spike_S[index] = True
        if times > greatest:
            greatest, at = times, index
    return _Spikes(column, is_spike_S, greatest, at) if is_spike_S.any() else None


def _times_level(calm: list[float], value: float) -> float | None:
    """How many times the level a value is; None where that is no spike."""
    if len(calm) < HISTORY // 2:
        return None
    level = float(np.median(calm))
    logs = np.log(calm)
    noise = BEYOND_NOISE * float(np.median(np.abs(logs - np.median(logs))))
    times = value / level
    return times if times >= FACTOR and np.log(times) >= noise else None


def _finding(step_S: Ints, series: list[_Spikes], attempt: int) -> Finding:
    spiking = np.flatnonzero(np.any([spikes.is_spike_S for spikes in series], axis=0))
    first, last = int(step_S[spiking[0]]), int(step_S[spiking[-1]])
    ongoing = bool(step_S.size - 1 - spiking[-1] < OVER_AFTER_STEPS)
    worst = series[0]  # the loss, where it spikes at all
    what = VALUES[worst.column]
    when = (
        f"in step {first}" if spiking.size == 1 else f"in {spiking.size} steps since step {first}"
    )
    urgent = worst.column == "loss"
    return Finding(
        kind="loss_spike",
        attempt=attempt,
        severity=("urgent" if urgent else "warning") if ongoing else "past",
        confidence="high" if urgent else "medium",
        title=f"{what[0].upper()}{what[1:]} spikes",
        text=f"{what[0].upper()}{what[1:]} is up to {worst.greatest:.1f} times its level before, "
        f"{when}.",
        first_step=first,
        last_step=last,
        ongoing=ongoing,
        evidence=tuple(_evidence(step_S, spikes, attempt) for spikes in series),
        alternatives=(
            "Another loss on purpose from that step on: other data, or other weights of its terms.",
            "A corrupted value on one rank (silent corruption): compare the replicas' weights.",
        ),
        next_step="Look at the layers' statistics around that step (question tensor_health), at "
        "the batch and the learning rate of the step; go back to the checkpoint before and skip "
        "its data if the loss does not come down by itself.",
        cause=f"{what[0].upper()}{what[1:]} leaves the level of the steps before by more than its "
        "noise.",
    )


def _evidence(step_S: Ints, spikes: _Spikes, attempt: int) -> Evidence:
    at = int(step_S[spikes.at])
    params = question_params(int(step_S[0]), at, attempt)
    view = (("page", "timeline"), ("attempt", attempt), ("steps", (at, at)))
    return Evidence(
        f"In step {at} {VALUES[spikes.column]} is {spikes.greatest:.2f} times the median of the "
        f"calm steps before it (up to {HISTORY}).",
        round(spikes.greatest, 3),
        "x",
        "steps",
        params,
        view,
    )
