"""What the ranks of a block do in their steps: rows of spans and collectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sample_traces.generate.durations import MS, Ns
from sample_traces.generate.simulation.replay import Pass, units_in_order
from sample_traces.generate.tables.blocks import Block
from sample_traces.generate.tables.rows import Rows
from trace_hooks.schema import UNKNOWN

Mask = npt.NDArray[np.bool_]

TP_BYTES, PP_BYTES, DP_BYTES = 64 << 20, 64 << 20, 256 << 20


def operations(block: Block) -> tuple[Rows, Rows]:
    """Every operation of every step as rows of spans and of collectives."""
    spans, collectives = block.rows("spans"), block.rows("collectives")
    _edges_of_steps(block, spans, collectives)
    _passes(block, spans, collectives)
    _last_words(block, spans, collectives)
    return spans, collectives


def phases(block: Block) -> Rows:
    """Rows of spans: sums per phase, laid one after the other into the step."""
    times = block.whole.times
    spans = block.rows("spans")
    both = [block.of_pass(one) for one in (times.forward, times.backward)]
    gathered, scattered = (
        block.of(end) - block.of(begin)
        for begin, end in ((times.gather, times.gathered), (times.scatter, times.scattered))
    )
    forward, backward = ((one.reduced - one.begun).sum(axis=0) for one in both)
    sums = {
        "data_wait": block.of(times.gather) - block.of(times.began),
        "dp_comm": gathered + scattered,
        "forward": forward,
        "backward": backward,
        "tp_comm": sum((one.ended - one.reduced).sum(axis=0) for one in both),
        "pp_comm": sum((one.begun - one.posted).sum(axis=0) for one in both),
        "other_comm": block.of(times.normed) - block.of(times.norm),
    }
    step = block.of(times.began)
    compute = block.cpu_share(1)
    for kind, dur in sums.items():
        cpu = (dur * compute).astype(np.int64) if kind in ("forward", "backward") else UNKNOWN
        _span(block, spans, kind, f"all {kind} of the step", step, dur, cpu_ns=cpu, keep=dur > 0)
        step = step + dur
    _optimizer(block, spans)
    return spans


def _optimizer(block: Block, spans: Rows) -> None:
    """The optimizer, and saving behind it."""
    times = block.whole.times
    begun, stepped = block.of(times.normed), block.of(times.stepped)
    saved = block.of(times.ended) - stepped
    took = stepped - begun
    _span(block, spans, "optimizer", "optimizer", begun, took, cpu_ns=took)
    _span(block, spans, "checkpoint", "torch.save", stepped, saved, cpu_ns=0, keep=saved > 0)


def _edges_of_steps(block: Block, spans: Rows, collectives: Rows) -> None:
    """What frames the pipeline: data, parameters, gradients, norm, optimizer."""
    times, job = block.whole.times, block.job
    began, gather = block.of(times.began), block.of(times.gather)
    _span(block, spans, "data_wait", "next batch", began, gather - began)
    if job.dp > 1:
        for op, seq, begin, end in (
            ("all_gather", 0, times.gather, times.gathered),
            ("reduce_scatter", 1, times.scatter, times.scattered),
        ):
            _collective(
                block,
                spans,
                collectives,
                "dp",
                op,
                2 * block.step_S1 + seq,
                block.of(begin),
                block.of(end),
                step=block.step_S1,
                num_bytes=DP_BYTES,
            )
    if job.num_ranks > 1:
        _collective(
            block,
            spans,
            collectives,
            "world",
            "all_reduce",
            block.step_S1,
            block.of(times.norm),
            block.of(times.normed),
            step=block.step_S1,
            num_bytes=4,
        )
    _optimizer(block, spans)


def _span(block: Block, spans: Rows, kind: str, name: str, begin: Ns, dur: Ns, **more: Any) -> None:
    """A span of every rank and step of the block, or of those that `keep` has."""
    where = {"step": block.step_S1, "ts_ns": begin, "dur_ns": dur}
    spans.add(block.rank, kind=kind, name=name, **where, **more)


def _passes(block: Block, spans: Rows, collectives: Rows) -> None:
    """Every forward and backward with its receive, all-reduce and send."""
    times = block.whole.times
    for kind, passes in (("forward", times.forward), ("backward", times.backward)):
        _compute(block, spans, kind, passes)
        if block.job.tp > 1:
            _reduces(block, spans, collectives, kind, passes)
        if block.job.pp > 1:
            _transfers(block, spans, collectives, kind, passes)
    _pauses(block, spans)


def _pauses(block: Block, spans: Rows) -> None:
    """Collections, at the end of a forward's last module where modules are recorded."""
    forward, gc = block.whole.times.forward, block.gc_ns()
    begin = block.of(forward.reduced) - gc if block.job.has_ops else block.of(forward.begun)
    depth = 2 if block.job.has_ops else 1
    _span(block, spans, "gc", "gc generation 2", begin, gc, cpu_ns=gc, keep=gc > 0, depth=depth)


def _compute(block: Block, spans: Rows, kind: str, passes: Pass) -> None:
    begun, ended = block.of(passes.begun), block.of(passes.ended)
    _work(block, spans, kind, kind, begun, ended, block.of(passes.reduced) - begun)
    if block.job.has_ops:
        _modules(block, spans, kind, begun, block.of(passes.reduced))


def _work(
    block: Block,
    spans: Rows,
    kind: str,
    name: str,
    begin: Ns,
    end: Ns,
    computing: Ns,
    depth: int = 0,
) -> None:
    """A span of which the rank computes so much."""
    cpu = (computing * block.cpu_share(2)).astype(np.int64)
    where = {"depth": depth, "microbatch": block.microbatch(), "chunk": block.virtual_stage()}
    _span(block, spans, kind, name, begin, end - begin, cpu_ns=cpu, **where)


def _modules(block: Block, spans: Rows, kind: str, begun: Ns, reduced: Ns) -> None:
    """Attention and what comes behind it, inside a forward or backward."""
    share_S1 = block.whole.durations.attention_S[:, None]
    paused = block.gc_ns() if kind == "forward" else 0
    between = begun + ((reduced - begun - paused) * share_S1).astype(np.int64)
    for name, begin, end in (
        ("layers.0.attention", begun, between),
        ("layers.0.mlp", between, reduced),
    ):
        _work(block, spans, kind, name, begin, end, end - begin, depth=1)


def _reduces(block: Block, spans: Rows, collectives: Rows, kind: str, passes: Pass) -> None:
    job = block.job
    letter = kind[0].upper()
    position_MP = np.empty((job.units, job.pp), dtype=np.int64)
    for p in range(job.pp):
        order = units_in_order(job, p)
        position_MP[:, p] = [order.index((letter, unit)) for unit in range(job.units)]
    seq = 2 * job.units * block.step_S1 + position_MP[:, None, block.p]
    _collective(
        block,
        spans,
        collectives,
        "tp",
        "all_reduce",
        seq,
        block.of(passes.reduced),
        block.of(passes.ended),
        step=block.step_S1,
        microbatch=block.microbatch(),
        num_bytes=TP_BYTES,
        depth=1,
    )


def _transfers(block: Block, spans: Rows, collectives: Rows, kind: str, passes: Pass) -> None:
    """Receives of this stage's inputs and sends of its outputs."""
    job = block.job
    lane = job.dp * job.tp
    ahead = 1 if kind == "forward" else -1  # where outputs go
    virtual = block.virtual_stage()
    source, target = virtual - ahead, virtual + ahead
    giver, taker = ((block.rank + by * lane) % job.num_ranks for by in (-ahead, ahead))
    unit = np.arange(job.units)[:, None, None]
    at_taker = (target // job.pp % job.chunks) * job.num_microbatches + block.microbatch()
    _collective(
        block,
        spans,
        collectives,
        "pp",
        "recv",
        block.step_S1 * job.units + unit,
        block.of(passes.posted),
        block.of(passes.begun),
        keep=(source >= 0) & (source < job.pp * job.chunks),
        step=block.step_S1,
        num_bytes=PP_BYTES,
        microbatch=block.microbatch(),
        peer=giver,
    )
    begun = passes.begun.reshape(job.units, -1, job.num_ranks)
    arrived = begun[at_taker, np.arange(begun.shape[1])[:, None], taker]
    _collective(
        block,
        spans,
        collectives,
        "pp",
        "send",
        block.step_S1 * job.units + at_taker,  # both sides give it the number of the receive
        block.of(passes.ended),
        arrived,
        keep=(target >= 0) & (target < job.pp * job.chunks),
        step=block.step_S1,
        num_bytes=PP_BYTES,
        microbatch=block.microbatch(),
        peer=taker,
        track="send",
    )


def _collective(
    block: Block,
    spans: Rows,
    collectives: Rows,
    axis: str,
    op: str,
    seq: Ns,
    begin: Ns,
    end: Ns,
    *,
    step: Ns,
    num_bytes: int,
    keep: Mask | None = None,
    microbatch: Ns | int = UNKNOWN,
    peer: Ns | int = UNKNOWN,
    track: str = "main",
    depth: int = 0,
) -> None:
    """One operation as a span and as a row of collectives."""
    group = block.groups[axis]
    spans.add(
        block.rank,
        keep,
        step=step,
        ts_ns=begin,
        dur_ns=end - begin,
        cpu_ns=0,
        name=op,
        track=track,
        kind="other_comm" if axis == "world" else f"{axis}_comm",
        depth=depth,
        microbatch=microbatch,
        group_id=group,
        coll_seq=seq,
        peer=peer,
        num_bytes=num_bytes,
    )
    collectives.add(
        block.rank,
        keep,
        step=step,
        group_id=group,
        seq=seq,
        op=op,
        num_bytes=num_bytes,
        peer=peer,
        tag=0 if axis == "pp" else UNKNOWN,
        enqueue_ns=begin,
        start_ns=begin,
        end_ns=end,
    )


def _last_words(block: Block, spans: Rows, collectives: Rows) -> None:
    """The step in which a rank is dead: its data-parallel peers wait for the all-gather."""
    for fault in block.job.faults:
        if fault.kind != "dead_rank" or fault.where is None:
            continue
        step, begin = fault.first_step, block.end_ns()
        alive = block.rank != fault.where
        p, rest = divmod(fault.where, block.job.dp * block.job.tp)
        peers = (block.p == p) & (block.t == rest % block.job.tp)
        spans.add(
            block.rank,
            alive,
            step=step,
            ts_ns=begin,
            dur_ns=MS,
            kind="data_wait",
            name="next batch",
        )
        if block.job.dp > 1:
            collectives.add(
                block.rank,
                alive & peers,
                step=step,
                group_id=block.groups["dp"],
                seq=2 * step,
                op="all_gather",
                num_bytes=DP_BYTES,
                enqueue_ns=begin + MS,
                start_ns=begin + MS,
                end_ns=UNKNOWN,
                state="started",
            )
