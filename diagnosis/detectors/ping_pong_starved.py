"""ping_pong_starved: micro-batches take turns between attention and experts, and a side idles.

Attention, experts and transfers were measured; the formulas of ping-pong say how long a pass takes
with as many micro-batches as there are, and with the fewest that keep the slowest part busy. There
are too few where that would save 5 % of the time of a micro-batch. Where attention and experts run
on ranks of their own, the sides are unequal where the shorter one would idle for a fifth of the
time in any case. Only runs whose micro-batches take turns, or with experts on ranks of their own.

Source: MegaScale-Infer (2504.02263), with the time for too few micro-batches added
(diagnosis/experts/ping_pong.py). Assumes: micro-batches of equal size. Known false positives: sides
that are unequal on purpose for want of a finer cut. Blind spots: times outside of attention and
experts (norms, residuals); backwards. Cost: spans and all-to-alls of the newest 20 steps.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from diagnosis.experts.findings import experts_view, listed
from diagnosis.experts.measured import Measured, passes_of
from diagnosis.experts.same_ranks import MOST_MICRO_BATCHES
from diagnosis.findings import Evidence, Finding, NotEnoughData, Verdict
from diagnosis.statistics.evidence_links import question_params
from diagnosis.statistics.units import in_ms, steps_text

NAME = "ping_pong_starved"
KINDS = ("ping_pong_starved",)
QUESTIONS = ("expert_times",)

FEWEST_STEPS = 2
"""One alone may be the first, which warms up; of large jobs only so many are read."""

LEAST_GAIN = 0.05
"""Of the time of a micro-batch, by more of them."""

LEAST_UNEQUAL = 0.2
"""Of the longer side: by so much the shorter one is shorter."""


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the newest steps in `tables`; None where nothing takes turns."""
    passes = [
        measured
        for measured in passes_of(tables["expert_times"])
        if not measured.on_same_ranks or measured.times.micro_batches > 1
    ]
    if not passes:
        return None
    if all(one.last_step - one.first_step + 1 < FEWEST_STEPS for one in passes):
        reason = f"Attention and experts were recorded in fewer than {FEWEST_STEPS} steps."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    starved = [one for one in passes if gain_of(one) >= LEAST_GAIN or unequal_by(one)]
    if not starved:
        checked = "Micro-batches that take turns keep attention and experts busy."
        return Verdict(NAME, checked=checked)
    return Verdict(NAME, (_finding(starved, attempt),))


def gain_of(measured: Measured) -> float:
    """Share of a micro-batch's time that enough micro-batches would save; 0 where there are, or
    where no number of them is enough.
    """
    times = measured.times
    if times.are_enough or times.least_micro_batches > MOST_MICRO_BATCHES:
        return 0.0
    better = times.with_micro_batches(times.least_micro_batches)
    return 1 - (better.total / better.micro_batches) / (times.total / times.micro_batches)


def unequal_by(measured: Measured) -> float:
    """Part by which the shorter side is shorter than the longer one; 0 below LEAST_UNEQUAL, or
    where both run on the same ranks.
    """
    if measured.on_same_ranks:
        return 0.0
    sides = measured.times.attention, measured.times.experts
    unequal = 1 - min(sides) / max(sides)
    return unequal if unequal >= LEAST_UNEQUAL else 0.0


def _finding(starved: list[Measured], attempt: int) -> Finding:
    worst = max(starved, key=lambda one: max(gain_of(one), unequal_by(one)))
    times, gain = worst.times, gain_of(worst)
    stages = tuple(one.stage for one in starved if one.stage >= 0)
    where = f" of stage{'s' if len(stages) > 1 else ''} {listed(stages)}" if stages else ""
    enough = times.least_micro_batches
    if gain >= LEAST_GAIN:
        title = f"{times.micro_batches} micro-batches{where} are too few to keep ranks busy"
        text = (
            f"{enough} micro-batches of this size would be enough, and each would take {gain:.0%} "
            "less time."
        )
        cause = "A micro-batch comes back from the experts after the others were computed."
        next_step = (
            f"Use {enough} micro-batches of this size (a larger batch), or make the all-to-alls "
            f"shorter. Cutting this batch into {enough} helps only where smaller micro-batches "
            "take less time in proportion."
        )
    else:
        shorter, longer = ("experts", "attention")
        if times.attention < times.experts:
            shorter, longer = longer, shorter
        title = f"{shorter.capitalize()}{where} {_idle_verb(shorter)} while {longer} computes"
        text = f"{shorter.capitalize()} would idle for {unequal_by(worst):.0%} of the time anyway."
        cause = f"The ranks for {longer} take longer for a micro-batch than those for {shorter}."
        next_step = f"Use more ranks for {longer}, or fewer for {shorter}."
    steps = steps_text(worst.first_step, worst.last_step)
    return Finding(
        kind="ping_pong_starved",
        attempt=attempt,
        severity="warning",
        confidence="medium",
        title=title,
        text=f"{_idle_text(worst)} in {steps}, with {times.micro_batches} micro-batches. {text}",
        first_step=worst.first_step,
        last_step=worst.last_step,
        ongoing=True,  # measured in the newest steps alone
        evidence=(_evidence(worst, attempt),),
        alternatives=("Micro-batches of unequal size, which the formulas do not know.",),
        next_step=next_step,
        stages=stages,
        cause=cause,
    )


def _idle_verb(side: str) -> str:
    return "idle" if side == "experts" else "idles"


def _idle_text(measured: Measured) -> str:
    times = measured.times
    if measured.on_same_ranks:
        return f"Ranks compute nothing for {times.attention_idle:.0%} of a pass"
    return (
        f"Attention idles for {times.attention_idle:.0%} and experts for {times.experts_idle:.0%} "
        "of a pass"
    )


def _evidence(measured: Measured, attempt: int) -> Evidence:
    times = measured.times
    first, last = measured.first_step, measured.last_step
    return Evidence(
        f"A micro-batch takes {in_ms(times.attention)} of attention, {in_ms(times.experts)} of "
        f"experts and {in_ms(times.transfer)} for each transfer in one of {times.layers} layers.",
        round(times.attention, 4),
        "ms",
        "expert_times",
        question_params(first, last, attempt),
        experts_view(attempt, first, last),
    )
