"""Tables of a synthetic job, for one block of ranks at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sample_traces.generate.durations import MS
from sample_traces.generate.tables.blocks import Block
from sample_traces.generate.tables.model_health import PEAK_LR
from sample_traces.generate.tables.model_tables import model_tables
from sample_traces.generate.tables.operations import operations, phases
from trace_hooks.schema import TABLES, UNKNOWN

TOKENS_PER_MICROBATCH = 4096
FLOPS_PER_TOKEN_AND_RANK = 6.0e8
HEARTBEAT_NS = 1_000 * MS
_HELD_BYTES = 70 << 30
WAIT_AFTER_DEATH_NS = 30_000 * MS


def tables(block: Block) -> dict[str, pa.Table]:
    """Every table of the block that has rows."""
    by_name = {
        "steps": _steps(block),
        "clocks": _clocks(block),
        "data_batches": _data_batches(block),
        "heartbeats": _heartbeats(block),
        "marks": _marks(block),
        "memory": _memory(block),
        **model_tables(block, block.whole.health),
    }
    if block.job.level == "steps":
        spans = phases(block)
    else:
        spans, collectives = operations(block)
        by_name["collectives"] = collectives.to_arrow()
        by_name["groups"] = _group_rows(block)
    by_name["spans"] = spans.to_arrow()
    kept = {name: _kept(block, name, table) for name, table in by_name.items()}
    return {name: table for name, table in kept.items() if table.num_rows}


def _kept(block: Block, name: str, table: pa.Table) -> pa.Table:
    """Without the records that are lost where data_gaps act."""
    for fault in block.job.faults if name in ("spans", "collectives") else ():
        if fault.kind == "data_gaps":
            hit = [step for step in range(block.job.num_steps) if fault.hits(step)]
            steps = [block.job.resumed_at + step for step in hit]
            is_lost = pc.and_(
                pc.equal(table["rank"], fault.where), pc.is_in(table["step"], pa.array(steps))
            )
            table = table.filter(pc.invert(is_lost))
    return table


def _steps(block: Block) -> pa.Table:
    times, job = block.whole.times, block.job
    random = np.random.default_rng([job.seed, int(block.rank[0])])
    steps = block.rows("steps")
    loss_S1 = 2.0 + 6.0 * np.exp(-block.step_S1 / 20.0)
    noise = 1 + 0.01 * random.standard_normal((job.steps_completed, len(block.rank)))
    num_tokens = float(TOKENS_PER_MICROBATCH * job.num_microbatches)
    steps.add(
        block.rank,
        step=block.step_S1,
        start_ns=block.of(times.began),
        dur_ns=block.of(times.step_ns),
        loss=loss_S1 * noise,
        grad_norm=1 / (1 + block.step_S1),
        tokens=num_tokens,
        flops=num_tokens * FLOPS_PER_TOKEN_AND_RANK * job.num_ranks,
        lr=block.whole.health.lr_S[:, None] if job.statistics_every else PEAK_LR,
    )
    return steps.to_arrow()


def _clocks(block: Block) -> pa.Table:
    clocks = block.whole.clocks
    rows = block.rows("clocks")
    rows.add(
        block.rank,
        ts_ns=block.whole.created_ns,
        offset_ns=clocks.estimate_R[block.rank],
        err_ns=clocks.err_ns,
        drift_ppb=0,
        method=clocks.method,
    )
    return rows.to_arrow()


def _data_batches(block: Block) -> pa.Table:
    times, job = block.whole.times, block.job
    exposed = block.of(times.gather - times.began)
    work_S = block.whole.durations.work_MSD.sum(axis=0)[:, block.d]
    rows = block.rows("data_batches")
    rows.add(
        block.rank,
        step=block.step_S1,
        ts_ns=block.of(times.gather),
        source="synthetic",
        fetch_ns=exposed,
        exposed_ns=exposed,
        tokens=TOKENS_PER_MICROBATCH * job.num_microbatches,
        sum_sq_len=(work_S * TOKENS_PER_MICROBATCH**2).astype(np.int64),
    )
    return rows.to_arrow()


def _heartbeats(block: Block) -> pa.Table:
    dead = {fault.where for fault in block.job.faults if fault.kind == "dead_rank"}
    begin, end = block.whole.created_ns, block.end_ns()
    rows = block.rows("heartbeats")
    after = WAIT_AFTER_DEATH_NS if dead else 0
    beats = np.arange(begin, end + after + 1, HEARTBEAT_NS)
    ends = block.of(block.whole.times.ended)[:, 0]
    step_B1 = np.minimum(np.searchsorted(ends, beats), block.job.num_steps - 1)[:, None]
    alive = (beats[:, None] <= end) | ~np.isin(block.rank, list(dead))
    hooks_S = block.whole.durations.hooks_S.astype(np.int64)
    spent_B1 = np.concatenate([[0], np.cumsum(hooks_S)])[np.searchsorted(ends, beats)][:, None]
    rows.add(
        block.rank,
        keep=alive,
        step=step_B1,
        ts_ns=beats[:, None],
        phase="step",
        last_op="all_reduce",
        self_ns=(beats[:, None] - begin) // 1_000 + spent_B1,
        dropped=0,
        hook_errors=0,
    )
    return rows.to_arrow()


def _memory(block: Block) -> pa.Table:
    """Retries of the allocator so far, of jobs that have any."""
    rows = block.rows("memory")
    stalls = [fault for fault in block.job.faults if fault.kind == "allocator_stalls"]
    if not stalls:
        return rows.to_arrow()
    hit_S = [[fault.hits(step) for step in range(block.job.steps_completed)] for fault in stalls]
    retries_SR = sum(
        np.cumsum(hit)[:, None] * (block.rank == fault.where)
        for hit, fault in zip(hit_S, stalls, strict=True)
    )
    rows.add(
        block.rank,
        step=block.step_S1,
        ts_ns=block.of(block.whole.times.ended),
        retries=retries_SR,
        allocated=_HELD_BYTES,
        reserved=_HELD_BYTES,
        peak=_HELD_BYTES,
        rss=_HELD_BYTES,
    )
    return rows.to_arrow()


def _marks(block: Block) -> pa.Table:
    rows = block.rows("marks")
    for fault in block.job.faults:
        writer = fault.where if "rank" in fault.to_json() else 0
        if writer in block.rank and fault.first_step < block.job.steps_completed:
            began = block.of(block.whole.times.began)[fault.first_step, writer - block.rank[0]]
            rows.add([writer], step=fault.first_step, ts_ns=began, kind="fault", text=fault.text)
    return rows.to_arrow()


def _group_rows(block: Block) -> pa.Table:
    """Each group once, written by its first member."""
    rows = []
    for axis, group_R in block.groups.items():
        size, stride = block.axis(axis)
        for rank, number in zip(block.rank.tolist(), group_R.tolist(), strict=True):
            if size > 1 and rank // stride % size == 0:
                ranks = list(range(rank, rank + size * stride, stride))
                rows.append(
                    {
                        "attempt": block.job.attempt,
                        "rank": rank,
                        "step": UNKNOWN,
                        "group_id": number,
                        "name": f"{axis}{rank}",
                        "desc": f"mesh_{axis}",
                        "axis": axis,
                        "ranks": ranks,
                    }
                )
    return pa.Table.from_pylist(rows, schema=TABLES["groups"].schema)
