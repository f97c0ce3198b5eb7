"""How long a job's pipeline would take under other schedules, from its measured operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.operations import Floats
from diagnosis.whatif.schedules.changes import AS_MEASURED, Changes, assumed, changed
from diagnosis.whatif.schedules.holding import (
    memory_assumption,
    memory_of,
    most_held_by_device,
    too_much,
)
from diagnosis.whatif.schedules.measured import Cell, Measured
from diagnosis.whatif.schedules.names import OVERLAPPING, Sizes, chunks_of, plan_of
from diagnosis.whatif.schedules.plan import FORWARD, WEIGHTS, Op, Plan
from diagnosis.whatif.schedules.replay import (
    Gap,
    Replayed,
    Took,
    Transfer,
    no_gap,
    period_s,
    replay,
)

MOST_TIMES = 4_000_000
"""Ends of operations that are held at once: of fewer steps where there are more."""

WEIGHTS_SHARE = 0.5
"""Of a backward, for the gradients of weights."""


@dataclass(frozen=True)
class Prediction:
    """`span_s`: of the pipeline of the slowest replica, from its first forward to its last
    backward (of a schedule whose steps overlap: from step to step), mean over the steps, by
    operations and transfers alone; `expected_s`: with the gaps between operations that the job has;
    `low_s`, `high_s`: 10th and 90th percentile of the latter. `bubble`: idle share of `span_s`,
    mean over steps and replicas; `expected_bubble`: of `expected_s`. `in_flight`: of each device
    the most micro-batches it holds, in whole stages. `memory_bytes`: of these on the device that
    holds most; `peak_bytes`: the most that each device would have allocated; None where it is not
    known. `reason`: why there is no prediction; then all numbers are None.
    """

    name: str
    span_s: float | None
    expected_s: float | None
    low_s: float | None
    high_s: float | None
    bubble: float | None
    expected_bubble: float | None
    num_devices: int
    in_flight: tuple[float, ...]
    memory_bytes: float | None
    peak_bytes: tuple[float, ...] | None
    assumptions: tuple[str, ...]
    reason: str = ""


def predict(measured: Measured, name: str, changes: Changes = AS_MEASURED) -> Prediction:
    """Under one of NAMES."""
    p = measured.sizes[0]
    try:
        plan, job = plan_for(measured, name, changes), changed(measured, changes)
    except ValueError as error:
        return _impossible(name, p, str(error))
    steps = _replayed_steps(job, plan)
    overlaps, cells = name in OVERLAPPING, [cell for step in steps for cell in step]
    shape = len(steps), len(steps[0])
    took, transfer = _of(plan, cells, changes), _transfers(job, plan, changes)
    made = _replayed(plan, took, transfer, no_gap, overlaps)
    real = _replayed(plan, took, transfer, _gaps(job, plan), overlaps)
    held = tuple(num / plan.chunks for num in made.held)
    if (reason := too_much(held, measured, changes)) is not None:
        return _impossible(name, p, reason)
    span_S, expected_S = (one.span_L.reshape(shape).max(axis=1) for one in (made, real))
    low, high = np.quantile(expected_S, (0.1, 0.9)).tolist()
    return Prediction(
        name,
        float(span_S.mean()),
        float(expected_S.mean()),
        low,
        high,
        float(made.bubble_L.mean()),
        float(real.bubble_L.mean()),
        len(plan.orders),
        held,
        *memory_of(measured, held, changes),
        (
            *assumed(measured, changes),
            *_assumptions(measured, plan, overlaps, changes),
            memory_assumption(measured, changes),
        ),
    )


def _replayed_steps(job: Measured, plan: Plan) -> Sequence[tuple[Cell, ...]]:
    """Those of the job, or some of them where all would take too much memory."""
    num_ops = sum(map(len, plan.orders))
    most = max(1, MOST_TIMES // (num_ops * len(job.steps[0])))
    at = np.linspace(0, len(job.steps) - 1, min(most, len(job.steps)))
    return [job.steps[round(index)] for index in at.tolist()]


def _impossible(name: str, p: int, reason: str) -> Prediction:
    return Prediction(name, None, None, None, None, None, None, p, (), None, None, (), reason)


def plan_for(measured: Measured, name: str, changes: Changes = AS_MEASURED) -> Plan:
    """The order of operations under one of NAMES; raises ValueError where it cannot run them."""
    p, own_chunks, m = measured.sizes
    v = chunks_of(name, own_chunks, changes.chunks)
    most = most_held_by_device(measured, changes)
    return plan_of(name, Sizes(p, changes.microbatches or m, v, most))


@dataclass(frozen=True)
class _Lanes:
    """What replicas do in steps, L of them."""

    span_L: Floats
    bubble_L: Floats
    held: tuple[int, ...]


def _replayed(plan: Plan, took: Took, transfer: Transfer, gap: Gap, overlaps: bool) -> _Lanes:
    made = replay(plan, took, transfer, gap)
    span_L, bubble_L = np.asarray(made.span_s), np.asarray(made.bubble)
    if overlaps:
        busy_L = span_L * (1 - bubble_L)
        span_L = np.asarray(period_s(plan, took, transfer, gap))
        bubble_L = 1 - busy_L / span_L
    return _Lanes(span_L, bubble_L, made.held())


def replayed_cell(
    measured: Measured, name: str, step: int, replica: int, changes: Changes = AS_MEASURED
) -> Replayed:
    """One step of one replica under one of NAMES, for a timeline; raises ValueError where it cannot
    run. Without stragglers all steps are the same.
    """
    plan, job = plan_for(measured, name, changes), changed(measured, changes)
    cells = job.steps[step] if changes.has_stragglers else job.steps[0]
    cell = cells[replica] if changes.has_stragglers else cells[0]
    took = _of(plan, [cell], changes)
    transfer, gap = _transfers(job, plan, changes), _gaps(job, plan)
    return replay(plan, lambda op: float(np.max(took(op))), transfer, gap)


def _of(plan: Plan, cells: list[Cell], changes: Changes) -> Took:
    """Times of the plan's operations in each cell; a chunk that was not measured takes its part of
    the stage.
    """
    forward_PVML, backward_PVML = (
        np.stack([_by_chunk(own_PVM, plan.chunks) for own_PVM in own], axis=-1)
        for own in ([cell.forward_PVM for cell in cells], [cell.backward_PVM for cell in cells])
    )
    p = forward_PVML.shape[0]
    weights = WEIGHTS_SHARE if plan.is_split else 0.0
    speed = changes.forward_speed if plan.is_decoupled else 1.0
    was_measured = cells[0].forward_PVM.shape[1] == plan.chunks

    def took(op: Op) -> Floats:
        # layers keep their time wherever they run; parts of a stage, that of their device's stage
        stage = op.stage % p if was_measured else plan.home[op.stage]
        at = stage, op.stage // p if plan.chunks > 1 else 0, op.microbatch
        if op.kind == FORWARD:
            own_L: Floats = forward_PVML[at] / speed
        else:
            own_L = backward_PVML[at] * (weights if op.kind == WEIGHTS else 1 - weights)
        return own_L

    return took


def _by_chunk(own_PVM: Floats, chunks: int) -> Floats:
    if own_PVM.shape[1] == chunks:
        return own_PVM
    whole = own_PVM.sum(axis=1, keepdims=True)
    return np.repeat(whole / chunks, chunks, axis=1)


def _transfers(measured: Measured, plan: Plan, changes: Changes) -> Transfer:
    """Over the link between the two devices, in its direction."""
    p = len(measured.forward_transfer_P)

    def transfer(first: Op, then: Op) -> float:
        if first.kind != then.kind:  # a forward's result on the device of its backward
            return changes.handover_s
        source, target = plan.home[first.stage], plan.home[then.stage]
        goes_up = target == (source + 1) % p
        if p == 2:  # both neighbours are the same: as the direction of the operation
            goes_up = first.kind == FORWARD
        own_P = measured.forward_transfer_P if goes_up else measured.backward_transfer_P
        return float(own_P[source])

    return transfer


def _gaps(job: Measured, plan: Plan) -> Gap:
    def gap(op: Op) -> float:
        device = plan.device_of[op]
        waits = any(plan.device_of[one] != device for one in plan.before(op))
        return job.message_gap_s if waits else job.own_gap_s

    return gap


def _assumptions(
    measured: Measured, plan: Plan, overlaps: bool, changes: Changes
) -> tuple[str, ...]:
    said = ["Operations take as long as measured, and nothing else uses the devices."]
    if plan.chunks != measured.sizes[1] and plan.chunks > 1:
        said.append(f"Each of {plan.chunks} chunks takes its part of the stage's time.")
    if plan.is_split:
        said.append(
            f"Gradients of weights take {WEIGHTS_SHARE:.0%} of a backward, and can run apart."
        )
    if overlaps:
        said.append(
            "Devices go on with the next step before others are done with this one: the optimizer "
            "waits for nobody, as with post-validation (arXiv 2401.10241)."
        )
    if plan.is_decoupled:
        said += _of_decoupled(plan, changes)
    if not measured.has_transfers:
        said.append("No transfers were recorded: they take no time.")
    return tuple(said)


def _of_decoupled(plan: Plan, changes: Changes) -> tuple[str, str]:
    """What is assumed where forwards and backwards have devices of their own."""
    speed, handover_ms = changes.forward_speed, 1e3 * changes.handover_s
    fast = "all equally fast" if speed == 1 else f"those of forwards {speed:g} times as fast"
    handed = f"{handover_ms:g} ms later, while both devices go on" if handover_ms else "at once"
    return (
        f"It runs on {len(plan.orders)} devices instead of {len(set(plan.home))}, {fast}; the "
        f"activations of a forward are on the device of its backward {handed}.",
        "What the devices of forwards wait for new weights after a step, and what they hold while "
        "they hand it over, is not in these numbers.",
    )
