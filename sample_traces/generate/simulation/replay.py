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


@dataclass
class Pass:
    """Forward or backward of every micro-batch: Unix ns, MSPDT each.

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


def one_f_one_b(p: int, num_stages: int, num_microbatches: int) -> list[tuple[str, int]]:
    """Order of ("F" or "B", micro-batch) on stage `p`.

    >>> one_f_one_b(1, 2, 2)
    [('F', 0), ('B', 0), ('F', 1), ('B', 1)]
    """
    warmup = min(num_stages - p - 1, num_microbatches)
    order = [("F", m) for m in range(warmup)]
    for m in range(num_microbatches - warmup):
        order += [("F", warmup + m), ("B", m)]
    return order + [("B", m) for m in range(num_microbatches - warmup, num_microbatches)]


def _all_in_order(num_stages: int, num_microbatches: int) -> list[tuple[int, str, int]]:
    """Every (stage, "F" or "B", micro-batch), each after what it depends on."""
    waiting = [one_f_one_b(p, num_stages, num_microbatches) for p in range(num_stages)]
    done: set[tuple[int, str, int]] = set()
    order: list[tuple[int, str, int]] = []
    while any(waiting):
        for p, ahead in enumerate(waiting):
            while ahead:
                kind, m = ahead[0]
                giver = p - 1 if kind == "F" else p + 1
                if 0 <= giver < num_stages and (giver, kind, m) not in done:
                    break
                done.add((p, kind, m))
                order.append((p, kind, m))
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
    for p, kind, m in _all_in_order(job.pp, job.num_microbatches):
        own, giver = passes[kind], p - 1 if kind == "F" else p + 1
        posted = free[:, p]
        begun = posted
        if 0 <= giver < job.pp:
            begun = np.maximum(own.ended[m, :, giver], posted) + wire[kind][:, giver]
            if kind == "F" and m == 0:
                begun = begun + flap[:, giver]
        reduced = begun + compute[kind][m, :, p]
        ended = reduced
        if job.tp > 1:
            ended = np.broadcast_to(_joined(reduced, axis=2) + tp_SPD1[:, p], reduced.shape)
        own.posted[m, :, p], own.begun[m, :, p] = posted, begun
        own.reduced[m, :, p], own.ended[m, :, p] = reduced, ended
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
