"""How long a job's pipeline would take under other schedules, from its measured operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diagnosis.whatif.operations import Floats
from diagnosis.whatif.schedules import greedy, orders
from diagnosis.whatif.schedules.measured import Cell, Measured
from diagnosis.whatif.schedules.plan import FORWARD, WEIGHTS, Op, Plan
from diagnosis.whatif.schedules.replay import Replayed, Took, Transfer, replay

CHUNKS = 2
"""Of a stage, where the job has none of its own."""

WEIGHTS_SHARE = 0.5
"""Of a backward, for the gradients of weights."""

Make = Callable[[int, int, int], Plan]
"""From stages, micro-batches and chunks."""


def _nominal(op: Op) -> float:
    """Frameworks fix an order before they know times: a backward takes two forwards."""
    return 1.0 if op.kind == FORWARD else 2.0


ONE_CHUNK = ("1f1b", "gpipe", "zb-h1", "fbd")
_MAKES: dict[str, Make] = {
    "1f1b": lambda p, m, v: orders.one_f_one_b(p, m),
    "gpipe": lambda p, m, v: orders.gpipe(p, m),
    "interleaved": lambda p, m, v: orders.interleaved(p, m, v),
    "breadth-first": lambda p, m, v: orders.breadth_first(p, m, v),
    "depth-first": lambda p, m, v: greedy.depth_first(p, m, v, _nominal),
    "zb-h1": lambda p, m, v: orders.zero_bubble_h1(p, m),
    "interleaved-zb": lambda p, m, v: orders.interleaved_zero_bubble(p, m, v),
    "zbv": lambda p, m, v: orders.zbv(p, m),
    "dualpipe-v": lambda p, m, v: orders.dualpipe_v(p, m),
    "fbd": lambda p, m, v: orders.decoupled(p, m),
}
NAMES = tuple(_MAKES)


@dataclass(frozen=True)
class Prediction:
    """`span_s`: of the pipeline of the slowest replica, from its first forward to its last
    backward, mean over the steps; `low_s`, `high_s`: 10th and 90th percentile. `bubble`: idle share
    of the span, mean over steps and replicas. `in_flight`: of each device the most micro-batches it
    holds, in whole stages. `memory_bytes`: None where the memory of a micro-batch is unknown.
    `reason`: why there is no prediction; then all numbers are None.
    """

    name: str
    span_s: float | None
    low_s: float | None
    high_s: float | None
    bubble: float | None
    num_devices: int
    in_flight: tuple[float, ...]
    memory_bytes: float | None
    assumptions: tuple[str, ...]
    reason: str = ""


def predict(measured: Measured, name: str, memory_bytes: float | None = None) -> Prediction:
    """Under one of NAMES. `memory_bytes`: what a stage holds of a micro-batch between its forward
    and its backward.
    """
    p, own_chunks, _ = measured.sizes
    try:
        plan = plan_for(measured, name)
    except ValueError as error:
        return Prediction(name, None, None, None, None, p, (), None, (), str(error))
    transfer = _transfers(measured)
    made = [
        [replay(plan, _of(plan, cell), transfer) for cell in replicas]
        for replicas in measured.steps
    ]
    span_S = np.array([max(one.span_s for one in replicas) for replicas in made])
    low, high = np.quantile(span_S, (0.1, 0.9)).tolist()
    held = tuple(num / plan.chunks for num in made[0][0].held())
    return Prediction(
        name,
        float(span_S.mean()),
        low,
        high,
        float(np.mean([one.bubble for replicas in made for one in replicas])),
        len(plan.orders),
        held,
        None if memory_bytes is None else max(held) * memory_bytes,
        _assumptions(measured, plan, own_chunks, memory_bytes is None),
    )


def plan_for(measured: Measured, name: str) -> Plan:
    """The order of operations under one of NAMES; raises ValueError where it cannot run them."""
    p, own_chunks, m = measured.sizes
    v = 1 if name in ONE_CHUNK else own_chunks if own_chunks > 1 and name != "zbv" else CHUNKS
    return _MAKES[name](p, m, v)


def mean_replay(measured: Measured, name: str) -> Replayed:
    """The mean step under one of NAMES, for a timeline; raises ValueError where it cannot run."""
    plan = plan_for(measured, name)
    return replay(plan, _of(plan, measured.mean()), _transfers(measured))


def _of(plan: Plan, cell: Cell) -> Took:
    """Times of the plan's operations; a chunk that was not measured takes its part of the stage."""
    forward, backward = (
        _by_chunk(one, plan.chunks) for one in (cell.forward_PVM, cell.backward_PVM)
    )
    p = cell.forward_PVM.shape[0]
    weights = WEIGHTS_SHARE if plan.is_split else 0.0

    def took(op: Op) -> float:
        at = plan.home[op.stage], op.stage // p if plan.chunks > 1 else 0, op.microbatch
        if op.kind == FORWARD:
            return float(forward[at])
        return float(backward[at]) * (weights if op.kind == WEIGHTS else 1 - weights)

    return took


def _by_chunk(own_PVM: Floats, chunks: int) -> Floats:
    if own_PVM.shape[1] == chunks:
        return own_PVM
    whole = own_PVM.sum(axis=1, keepdims=True)
    return np.repeat(whole / chunks, chunks, axis=1)


def _transfers(measured: Measured) -> Transfer:
    p = len(measured.forward_transfer_P)

    def transfer(first: Op, then: Op) -> float:
        if first.kind != then.kind:  # a forward's result on the device of its backward
            return 0.0
        own = measured.forward_transfer_P if first.kind == FORWARD else measured.backward_transfer_P
        return float(own[first.stage % p])

    return transfer


def _assumptions(
    measured: Measured, plan: Plan, own_chunks: int, no_memory: bool
) -> tuple[str, ...]:
    said = ["Operations take as long as measured, and nothing else uses the devices."]
    if plan.chunks > own_chunks:
        said.append(f"Each of {plan.chunks} chunks takes its part of the stage's time.")
    if plan.is_split:
        said.append(
            f"Gradients of weights take {WEIGHTS_SHARE:.0%} of a backward, and can run apart."
        )
    if len(plan.orders) > len(set(plan.home)):
        said.append(
            f"It runs on {len(plan.orders)} devices instead of {len(set(plan.home))}, all equally "
            "fast, and handing over a forward's results takes no time."
        )
    if not measured.has_transfers:
        said.append("No transfers were recorded: they take no time.")
    if no_memory:
        said.append("What a micro-batch holds in memory is unknown: no limit is checked.")
    return tuple(said)
