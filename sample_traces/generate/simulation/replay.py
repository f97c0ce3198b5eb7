"""When every operation begins and ends: a max-plus replay of 1F1B over all ranks at once.

An operation begins at the latest of what it waits for. A collective transfers once its last member
has arrived. All ranks meet in the gradient norm, so every step is replayed on its own, from time 0
at the end of the norm before, and all steps at once. docs/whatif.md has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sample_traces.generate.durations import Durations, Ns
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.pipeline_order import one_f_one_b


@dataclass
class Pass:
    """Forward or backward of every unit (micro-batch on a chunk, chunk by chunk): Unix ns, MSPDT.

    posted: ready for the input (a receive begins); begun: the input is there; reduced: the
    all-reduce over T begins; ended: it is done, the output can be sent.
    """

    posted: Ns
    begun: Ns
    reduced: Ns
    ended: Ns


@dataclass
class Times:
    """When everything happened, int64 ns; SPDT unless noted."""

    forward: Pass
    backward: Pass
    began: Ns
    gather: Ns  # the parameter all-gather begins
    gathered: Ns
    idle: Ns  # the last backward has ended; skew follows
    scatter: Ns
    scattered: Ns
    normed: Ns
    stepped: Ns  # the optimizer has ended; saving follows
    ended: Ns
    norm: Ns  # the gradient norm begins
    step_ns: Ns = field(init=False)

    def __post_init__(self) -> None:
        self.step_ns = self.ended - self.began


def units_in_order(job: SyntheticJob, p: int) -> list[tuple[str, int]]:
    """Order of ("F" or "B", unit) on stage `p`.

    >>> units_in_order(SyntheticJob(num_ranks=2, pp=2, num_microbatches=2), p=1)
    [('F', 0), ('B', 0), ('F', 1), ('B', 1)]
    """
    order = one_f_one_b(p, job.pp, job.num_microbatches, job.chunks)
    return [(kind, chunk * job.num_microbatches + m) for kind, chunk, m in order]


def giver_of(job: SyntheticJob, p: int, kind: str, unit: int) -> tuple[int, int] | None:
    """Stage and unit that a forward or backward has its input from, None at the pipeline's ends."""
    ahead = 1 if kind == "F" else -1
    virtual = unit // job.num_microbatches * job.pp + p - ahead
    if not 0 <= virtual < job.chunks * job.pp:
        return None
    chunk, stage = divmod(virtual, job.pp)
    return stage, chunk * job.num_microbatches + unit % job.num_microbatches


def _all_in_order(job: SyntheticJob) -> list[tuple[int, str, int, tuple[int, int] | None]]:
    """Every (stage, "F" or "B", unit, what it has its input from), each after what it needs."""
    waiting = [units_in_order(job, p) for p in range(job.pp)]
    done: set[tuple[str, tuple[int, int]]] = set()
    order: list[tuple[int, str, int, tuple[int, int] | None]] = []
    while any(waiting):
        for p, ahead in enumerate(waiting):
            while ahead:
                kind, unit = ahead[0]
                giver = giver_of(job, p, kind, unit)
                if giver is not None and (kind, giver) not in done:
                    break
                done.add((kind, (p, unit)))
                order.append((p, kind, unit, giver))
                ahead.pop(0)
    return order


def replay(job: SyntheticJob, durations: Durations, t0_ns: int) -> Times:
    """Times of all completed steps, the first one beginning at `t0_ns`."""
    d = durations
    optimizer = d.optimizer_SPDT.astype(np.int64)
    tail = optimizer + d.checkpoint_SPDT.astype(np.int64)
    began = np.concatenate([np.zeros_like(tail[:1]), tail[:-1]])
    gather = began + d.data_SPDT.astype(np.int64)
    gathered = gather
    if job.dp > 1:
        gathered = _joined(gather, axis=2) + d.gather_SPT.astype(np.int64)[:, :, None, :]
        gathered = np.broadcast_to(gathered, gather.shape)
    forward, backward, idle = _pipeline(job, d, gathered)
    scatter = idle + d.skew_SPDT.astype(np.int64)
    scattered = scatter
    if job.dp > 1:
        joined = _joined(scatter, axis=2) + d.scatter_SPT.astype(np.int64)[:, :, None, :]
        scattered = np.broadcast_to(joined, scatter.shape)
    meeting_S = scattered.max(axis=(1, 2, 3)) + d.norm_S.astype(np.int64)
    normed = np.broadcast_to(meeting_S[:, None, None, None], scattered.shape)
    times = Times(
        forward,
        backward,
        began,
        gather,
        gathered,
        idle,
        scatter,
        scattered,
        normed,
        normed + optimizer,
        normed + tail,
        scattered,
    )
    base_S = t0_ns + np.concatenate([[0], np.cumsum(meeting_S)[:-1]])
    _shift(times, base_S)
    return times


def _joined(arrived: Ns, axis: int) -> Ns:
    """When the last member of each group along `axis` has arrived."""
    latest: Ns = arrived.max(axis=axis, keepdims=True)
    return latest


def _pipeline(job: SyntheticJob, d: Durations, ready: Ns) -> tuple[Pass, Pass, Ns]:
    """Forward and backward passes, and when each rank is through; `ready`: SPDT."""
    shape = d.forward_MSPDT.shape
    passes = {
        kind: Pass(*(np.empty(shape, dtype=np.int64) for _ in range(4))) for kind in ("F", "B")
    }
    compute = {
        "F": (d.forward_MSPDT + d.gc_MSPDT).astype(np.int64),
        "B": d.backward_MSPDT.astype(np.int64),
    }
    wire = {"F": d.pp_forward_SPDT.astype(np.int64), "B": d.pp_backward_SPDT.astype(np.int64)}
    flap = d.flap_SPDT.astype(np.int64)
    tp_SPD1 = d.tp_SPD.astype(np.int64)[..., None]
    free = np.array(ready)
    for p, kind, unit, giver in _all_in_order(job):
        own = passes[kind]
        posted = free[:, p]
        begun = posted
        if giver is not None:
            stage, given = giver
            begun = np.maximum(own.ended[given, :, stage], posted) + wire[kind][:, stage]
            if kind == "F" and unit == 0:
                begun = begun + flap[:, stage]
        reduced = begun + compute[kind][unit, :, p]
        ended = reduced
        if job.tp > 1:
            ended = np.broadcast_to(_joined(reduced, axis=2) + tp_SPD1[:, p], reduced.shape)
        own.posted[unit, :, p], own.begun[unit, :, p] = posted, begun
        own.reduced[unit, :, p], own.ended[unit, :, p] = reduced, ended
        free[:, p] = ended
    return passes["F"], passes["B"], free


def _shift(times: Times, base_S: Ns) -> None:
    """From times since the norm before to Unix ns, in place."""
    base = base_S[:, None, None, None]
    for passes in (times.forward, times.backward):
        for name in ("posted", "begun", "reduced", "ended"):
            getattr(passes, name)[...] += base
    for name in (
        "began",
        "gather",
        "gathered",
        "idle",
        "scatter",
        "scattered",
        "normed",
        "stepped",
        "ended",
        "norm",
    ):
        setattr(times, name, getattr(times, name) + base)
