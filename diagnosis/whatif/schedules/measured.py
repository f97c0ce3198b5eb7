"""Measured times of a pipeline's operations, as schedules need them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from diagnosis.whatif.analysis import Prepared
from diagnosis.whatif.operations import Floats, Ints, NotAnswerable, Operations
from diagnosis.whatif.optypes import BACKWARD, BACKWARD_SEND, FORWARD, FORWARD_SEND
from diagnosis.whatif.schedules import plan
from diagnosis.whatif.schedules.memory import StageMemory
from diagnosis.whatif.schedules.plan import Op

MOST_CELLS, FEWEST_STEPS = 2_048, 3
"""Steps of single replicas that are replayed at most, evenly spread, if that leaves so many steps
of all replicas.
"""


@dataclass(frozen=True)
class Cell:
    """One step of one replica. `forward_PVM`, `backward_PVM`: s, of each stage, chunk and
    micro-batch.
    """

    forward_PVM: Floats
    backward_PVM: Floats


@dataclass(frozen=True)
class Measured:
    """What is known of a job's pipeline. `steps`: of each replayed step all replicas; `index_S`:
    which of the job's steps they are, counted from its first.
    `forward_transfer_P`, `backward_transfer_P`: medians of the transfers from each stage to its
    neighbour, s; 0 where none was recorded. `own_gap_s`, `message_gap_s`: medians of the time from
    when an operation could begin to when it did, of those that need nothing of another device, and
    of those that do. `order`: of each stage its operations in the step that gives the order of all.
    `measured_s`: from the first forward to the last backward of the slowest replica, mean over
    those steps. `memory`: None where it was not recorded.
    """

    steps: tuple[tuple[Cell, ...], ...]
    index_S: tuple[int, ...]
    forward_transfer_P: Floats
    backward_transfer_P: Floats
    has_transfers: bool
    own_gap_s: float = 0.0
    message_gap_s: float = 0.0
    order: tuple[tuple[Op, ...], ...] = ()
    measured_s: float = 0.0
    memory: StageMemory | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Stages, chunks of a stage, micro-batches."""
        p, v, m = self.steps[0][0].forward_PVM.shape
        return p, v, m


def measured(prepared: Prepared, memory: StageMemory | None = None) -> Measured:
    """Of the steps of a job and its `memory`; raises NotAnswerable where it has no pipeline."""
    ops = prepared.ops
    if ops.sizes.pp < 2:
        raise NotAnswerable("the job has one pipeline stage: schedules do not differ for it")
    at_PVM = {optype: _places(ops, optype) for optype in (FORWARD, BACKWARD)}
    if at_PVM[FORWARD].shape != at_PVM[BACKWARD].shape:
        raise NotAnswerable("forwards and backwards are not of the same micro-batches")
    index_S = _some_steps(len(ops.step_S), ops.sizes.dp)
    steps = [
        tuple(
            Cell(own_OD[at_PVM[FORWARD], replica], own_OD[at_PVM[BACKWARD], replica])
            for replica in range(ops.sizes.dp)
        )
        for step in index_S
        for own_OD in (prepared.own_OSD[:, step],)
    ]
    sends = [_transfers(prepared, optype) for optype in (FORWARD_SEND, BACKWARD_SEND)]
    has_transfers = any(own is not None for own in sends)
    forward_P, backward_P = (np.zeros(ops.sizes.pp) if own is None else own for own in sends)
    gaps = _gaps(ops, at_PVM, forward_P, backward_P)
    return Measured(
        tuple(steps),
        tuple(index_S),
        forward_P,
        backward_P,
        has_transfers,
        *gaps,
        _order(ops, at_PVM),
        _span_s(ops, at_PVM, index_S),
        memory,
    )


def _order(ops: Operations, at_PVM: dict[str, Ints]) -> tuple[tuple[Op, ...], ...]:
    p = at_PVM[FORWARD].shape[0]
    start_O = ops.start_OSD[:, ops.reference, 0]
    lanes: list[list[tuple[float, Op]]] = [[] for _ in range(p)]
    for kind, optype in ((plan.FORWARD, FORWARD), (plan.BACKWARD, BACKWARD)):
        for (stage, chunk, i), op in np.ndenumerate(at_PVM[optype]):
            lanes[stage].append((float(start_O[op]), Op(kind, chunk * p + stage, i)))
    return tuple(tuple(op for _, op in sorted(lane)) for lane in lanes)


def _span_s(ops: Operations, at_PVM: dict[str, Ints], index_S: list[int]) -> float:
    own = np.concatenate([at_PVM[FORWARD].ravel(), at_PVM[BACKWARD].ravel()])
    begin_SD = ops.start_OSD[own][:, index_S].min(axis=0)
    end_SD = ops.end_OSD[own][:, index_S].max(axis=0)
    return float((end_SD - begin_SD).max(axis=1).mean())


def _gaps(
    ops: Operations, at_PVM: dict[str, Ints], forward_P: Floats, backward_P: Floats
) -> tuple[float, float]:
    """(own, message): see Measured; 0 where there are no such operations."""
    p, v, m = at_PVM[FORWARD].shape
    last = p * v - 1

    def at(optype: str, stage: int, i: int) -> int:
        return int(at_PVM[optype][stage % p, stage // p, i])

    own: list[float] = []
    message: list[float] = []
    needed: dict[int, tuple[int, float]] = {}
    for stage in range(p * v):
        for i in range(m):
            if stage > 0:
                arrives = at(FORWARD, stage - 1, i), float(forward_P[(stage - 1) % p])
                needed[at(FORWARD, stage, i)] = arrives
            if stage < last:
                arrives = at(BACKWARD, stage + 1, i), float(backward_P[(stage + 1) % p])
                needed[at(BACKWARD, stage, i)] = arrives
    start_OL, end_OL = (one.reshape(len(one), -1) for one in (ops.start_OSD, ops.end_OSD))
    lanes = _some_steps(start_OL.shape[1], 1)
    for stage in range(p):
        of_stage = np.concatenate([at_PVM[kind][stage].ravel() for kind in (FORWARD, BACKWARD)])
        for lane in lanes:
            order = of_stage[np.argsort(start_OL[of_stage, lane])].tolist()
            for before, op in pairwise(order):
                could = float(end_OL[before, lane])
                if op in needed:
                    other, transfer = needed[op]
                    could = max(could, float(end_OL[other, lane]) + transfer)
                gap = float(start_OL[op, lane]) - could
                (message if op in needed else own).append(gap)
    own_s, message_s = (
        max(float(np.median(gaps)), 0.0) if gaps else 0.0 for gaps in (own, message)
    )
    return own_s, message_s


def _some_steps(num: int, replicas: int) -> list[int]:
    """Indices of the steps to replay."""
    most = max(MOST_CELLS // replicas, FEWEST_STEPS)
    return sorted({round(at) for at in np.linspace(0, num - 1, min(num, most)).tolist()})


def _places(ops: Operations, optype: str) -> Ints:
    """(P, V, M): indices of the operations of a type, micro-batches in order of their numbers."""
    places = []
    for stage in range(ops.sizes.pp):
        own = ops.of_type(optype, stage)
        by_chunk = [
            sorted(
                (op for op in own if max(int(ops.chunk_O[op]), 0) == chunk),
                key=ops.seq_O.__getitem__,
            )
            for chunk in range(ops.num_chunks)
        ]
        places.append(by_chunk)
    lengths = {len(chunk) for stage in places for chunk in stage}
    if len(lengths) != 1 or not lengths - {0}:
        raise NotAnswerable(f"stages or chunks differ in how many operations {optype} they have")
    return np.array(places, np.int64)


def _transfers(prepared: Prepared, optype: str) -> Floats | None:
    """(P,): median own time of the sends of each stage, s; None where none is recorded."""
    ops = prepared.ops
    found = np.full(ops.sizes.pp, np.nan)
    for stage in range(ops.sizes.pp):
        own = ops.of_type(optype, stage)
        if own:
            found[stage] = max(float(np.median(prepared.own_OSD[own])), 0.0)
    if np.isnan(found).all():
        return None
    return np.where(np.isnan(found), np.nanmedian(found), found)
