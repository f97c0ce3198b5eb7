"""Tables of a synthetic job, for one block of ranks at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sample_traces.generate.clocks import Clocks
from sample_traces.generate.durations import MS, Durations, Float, Ns
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.replay import Pass, Times, one_f_one_b
from sample_traces.generate.rows import Rows
from trace_hooks.schema import TABLES, UNKNOWN
from trace_hooks.sources.groups import group_id

Mask = npt.NDArray[np.bool_]

TOKENS_PER_MICROBATCH = 4096
FLOPS_PER_TOKEN_AND_RANK = 6.0e8
TP_BYTES, PP_BYTES, DP_BYTES = 64 << 20, 64 << 20, 256 << 20
HEARTBEAT_NS = 1_000 * MS
WAIT_AFTER_DEATH_NS = 30_000 * MS


@dataclass(frozen=True)
class Synthetic:
    """Everything known about a synthetic job before it is written."""

    job: SyntheticJob
    durations: Durations
    times: Times
    clocks: Clocks
    created_ns: int


class Block:
    """The ranks from `first` to `last` (not included) of a synthetic job."""

    def __init__(self, whole: Synthetic, first: int, last: int) -> None:
        self.whole = whole
        self.job = whole.job
        self.rank = np.arange(first, last)
        self.p, rest = np.divmod(self.rank, self.job.dp * self.job.tp)
        self.d, self.t = np.divmod(rest, self.job.tp)
        self.step_S1 = np.arange(self.job.steps_completed)[:, None]
        self.groups = {axis: self._groups(axis) for axis in ("tp", "pp", "dp", "world")}

    def _axis(self, axis: str) -> tuple[int, int]:
        """Size of an axis, and the distance between neighbours on it."""
        job = self.job
        return {
            "tp": (job.tp, 1),
            "dp": (job.dp, job.tp),
            "pp": (job.pp, job.dp * job.tp),
            "world": (job.num_ranks, 1),
        }[axis]

    def _groups(self, axis: str) -> Ns:
        """Group id along an axis, by rank of the block."""
        size, stride = self._axis(axis)
        first_R = self.rank - self.rank // stride % size * stride
        unique, inverse = np.unique(first_R, return_inverse=True)
        # the group of all ranks is one of its own also where an axis spans them: each numbers apart
        ordinal = int(axis == "world")
        ids = [group_id(range(f, f + size * stride, stride), ordinal) for f in unique.tolist()]
        return np.array(ids, dtype=np.int64)[inverse]

    def of(self, array: Ns) -> Ns:
        """The block's part of an array whose last axes are P, D, T."""
        flat = array.reshape(*array.shape[:-3], self.job.num_ranks)
        return flat[..., self.rank]

    def rows(self, table: str) -> Rows:
        """Empty rows of a table on the clocks of the job."""
        job = self.job
        return Rows(table, self.whole.clocks.offset_R, job.attempt, job.resumed_at)

    def tables(self) -> dict[str, pa.Table]:
        """Every table of the block that has rows."""
        found = {
            "steps": self._steps(),
            "clocks": self._clocks(),
            "data_batches": self._data_batches(),
            "heartbeats": self._heartbeats(),
            "marks": self._marks(),
        }
        spans = self.rows("spans")
        if self.job.level == "steps":
            self._phases(spans)
        else:
            collectives = self.rows("collectives")
            self._edges_of_steps(spans, collectives)
            self._passes(spans, collectives)
            self._last_words(spans, collectives)
            found["collectives"] = collectives.to_arrow()
            found["groups"] = self._group_rows()
        found["spans"] = spans.to_arrow()
        kept = {name: self._kept(name, table) for name, table in found.items()}
        return {name: table for name, table in kept.items() if table.num_rows}

    def _kept(self, name: str, table: pa.Table) -> pa.Table:
        """Without the records that are lost where data_gaps act."""
        for fault in self.job.faults if name in ("spans", "collectives") else ():
            if fault.kind == "data_gaps":
                hit = [step for step in range(self.job.num_steps) if fault.hits(step)]
                steps = [self.job.resumed_at + step for step in hit]
                is_lost = pc.and_(
                    pc.equal(table["rank"], fault.where), pc.is_in(table["step"], pa.array(steps))
                )
                table = table.filter(pc.invert(is_lost))
        return table

    def _steps(self) -> pa.Table:
        times, job = self.whole.times, self.job
        random = np.random.default_rng([job.seed, int(self.rank[0])])
        steps = self.rows("steps")
        loss_S1 = 2.0 + 6.0 * np.exp(-self.step_S1 / 20.0)
        noise = 1 + 0.01 * random.standard_normal((job.steps_completed, len(self.rank)))
        num_tokens = float(TOKENS_PER_MICROBATCH * job.num_microbatches)
        steps.add(
            self.rank, step=self.step_S1, start_ns=self.of(times.began),
            dur_ns=self.of(times.step_ns), loss=loss_S1 * noise, grad_norm=1 / (1 + self.step_S1),
            tokens=num_tokens, flops=num_tokens * FLOPS_PER_TOKEN_AND_RANK * job.num_ranks, lr=3e-4,
        )  # fmt: skip
        return steps.to_arrow()

    def _clocks(self) -> pa.Table:
        clocks = self.whole.clocks
        rows = self.rows("clocks")
        rows.add(
            self.rank, ts_ns=self.whole.created_ns, offset_ns=clocks.estimate_R[self.rank],
            err_ns=clocks.err_ns, drift_ppb=0, method=clocks.method,
        )  # fmt: skip
        return rows.to_arrow()

    def _data_batches(self) -> pa.Table:
        times, job = self.whole.times, self.job
        exposed = self.of(times.gather - times.began)
        work_S = self.whole.durations.work_MSD.sum(axis=0)[:, self.d]
        rows = self.rows("data_batches")
        rows.add(
            self.rank, step=self.step_S1, ts_ns=self.of(times.gather), source="synthetic",
            fetch_ns=exposed, exposed_ns=exposed,
            tokens=TOKENS_PER_MICROBATCH * job.num_microbatches,
            sum_sq_len=(work_S * TOKENS_PER_MICROBATCH**2).astype(np.int64),
        )  # fmt: skip
        return rows.to_arrow()

    def _end_ns(self) -> int:
        """When the last completed step of the job ended."""
        if not self.job.steps_completed:
            return self.whole.created_ns
        return int(self.whole.times.ended[-1].max())

    def _heartbeats(self) -> pa.Table:
        dead = {fault.where for fault in self.job.faults if fault.kind == "dead_rank"}
        begin, end = self.whole.created_ns, self._end_ns()
        rows = self.rows("heartbeats")
        after = WAIT_AFTER_DEATH_NS if dead else 0
        beats = np.arange(begin, end + after + 1, HEARTBEAT_NS)
        ends = self.of(self.whole.times.ended)[:, 0]
        step_B1 = np.minimum(np.searchsorted(ends, beats), self.job.num_steps - 1)[:, None]
        alive = (beats[:, None] <= end) | ~np.isin(self.rank, list(dead))
        hooks_S = self.whole.durations.hooks_S.astype(np.int64)
        spent_B1 = np.concatenate([[0], np.cumsum(hooks_S)])[np.searchsorted(ends, beats)][:, None]
        rows.add(
            self.rank, keep=alive, step=step_B1, ts_ns=beats[:, None], phase="step",
            last_op="all_reduce", self_ns=(beats[:, None] - begin) // 1_000 + spent_B1, dropped=0,
            hook_errors=0,
        )  # fmt: skip
        return rows.to_arrow()

    def _marks(self) -> pa.Table:
        rows = self.rows("marks")
        for fault in self.job.faults:
            writer = fault.where if "rank" in fault.to_json() else 0
            if writer in self.rank and fault.first_step < self.job.steps_completed:
                text = ", ".join(f"{name} {value}" for name, value in fault.to_json().items())
                began = self.of(self.whole.times.began)[fault.first_step, writer - self.rank[0]]
                rows.add([writer], step=fault.first_step, ts_ns=began, kind="fault", text=text)
        return rows.to_arrow()

    def _phases(self, spans: Rows) -> None:
        """Sums per phase, laid one after the other into the step."""
        times = self.whole.times
        forward, backward = times.forward, times.backward
        waits = (forward.begun - forward.posted + backward.begun - backward.posted).sum(axis=0)
        reduces = (forward.ended - forward.reduced + backward.ended - backward.reduced).sum(axis=0)
        phases = {
            "data_wait": times.gather - times.began,
            "dp_comm": times.gathered - times.gather + times.scattered - times.scatter,
            "forward": (forward.reduced - forward.begun).sum(axis=0),
            "backward": (backward.reduced - backward.begun).sum(axis=0),
            "tp_comm": reduces,
            "pp_comm": waits,
            "other_comm": times.normed - times.scattered,
        }
        at = self.of(times.began)
        compute = self._cpu(1)
        for kind, total in phases.items():
            dur = self.of(total)
            cpu = (dur * compute).astype(np.int64) if kind in ("forward", "backward") else UNKNOWN
            spans.add(
                self.rank, keep=dur > 0, step=self.step_S1, ts_ns=at, dur_ns=dur, cpu_ns=cpu,
                kind=kind, name=f"all {kind} of the step",
            )  # fmt: skip
            at = at + dur
        self._optimizer(spans)

    def _cpu(self, dims: int) -> Float:
        """CPU time per wall time of compute, (S, R) behind dims - 1 axes of length 1."""
        share = 1 / self.of(self.whole.durations.wall_per_cpu_SPDT)  # type: ignore[arg-type]
        return share.reshape((1,) * (dims - 1) + share.shape)

    def _optimizer(self, spans: Rows) -> None:
        """The optimizer, and saving behind it."""
        times = self.whole.times
        begun, stepped = self.of(times.normed), self.of(times.stepped)
        saved = self.of(times.ended) - stepped
        spans.add(
            self.rank, step=self.step_S1, ts_ns=begun, dur_ns=stepped - begun,
            cpu_ns=stepped - begun, kind="optimizer", name="optimizer",
        )  # fmt: skip
        spans.add(
            self.rank, keep=saved > 0, step=self.step_S1, ts_ns=stepped, dur_ns=saved, cpu_ns=0,
            kind="checkpoint", name="torch.save",
        )  # fmt: skip

    def _edges_of_steps(self, spans: Rows, collectives: Rows) -> None:
        """What frames the pipeline: data, parameters, gradients, norm, optimizer."""
        times, job = self.whole.times, self.job
        began, gather = self.of(times.began), self.of(times.gather)
        spans.add(
            self.rank, step=self.step_S1, ts_ns=began, dur_ns=gather - began, kind="data_wait",
            name="next batch",
        )  # fmt: skip
        if job.dp > 1:
            for op, seq, begin, end in (
                ("all_gather", 0, times.gather, times.gathered),
                ("reduce_scatter", 1, times.scatter, times.scattered),
            ):
                self._collective(
                    spans, collectives, "dp", op, 2 * self.step_S1 + seq, self.of(begin),
                    self.of(end), step=self.step_S1, num_bytes=DP_BYTES,
                )  # fmt: skip
        if job.num_ranks > 1:
            self._collective(
                spans, collectives, "world", "all_reduce", self.step_S1, self.of(times.scattered),
                self.of(times.normed), step=self.step_S1, num_bytes=4,
            )  # fmt: skip
        self._optimizer(spans)

    def _passes(self, spans: Rows, collectives: Rows) -> None:
        """Every forward and backward with its receive, all-reduce and send."""
        times = self.whole.times
        for kind, one in (("forward", times.forward), ("backward", times.backward)):
            self._compute(spans, kind, one)
            if self.job.tp > 1:
                self._reduces(spans, collectives, kind, one)
            if self.job.pp > 1:
                self._transfers(spans, collectives, kind, one)
        self._pauses(spans)

    def _pauses(self, spans: Rows) -> None:
        """Collections, at the end of a forward's last module where modules are recorded."""
        forward, gc = self.whole.times.forward, self._gc()
        begin = self.of(forward.reduced) - gc if self.job.has_ops else self.of(forward.begun)
        spans.add(
            self.rank, keep=gc > 0, step=self.step_S1, ts_ns=begin, dur_ns=gc, cpu_ns=gc, kind="gc",
            name="gc generation 2", depth=2 if self.job.has_ops else 1,
        )  # fmt: skip

    def _gc(self) -> Ns:
        return self.of(self.whole.durations.gc_MSPDT.astype(np.int64))

    def _microbatch(self) -> Ns:
        return np.arange(self.job.num_microbatches)[:, None, None]

    def _compute(self, spans: Rows, kind: str, one: Pass) -> None:
        begun, ended = self.of(one.begun), self.of(one.ended)
        cpu = ((self.of(one.reduced) - begun) * self._cpu(2)).astype(np.int64)
        spans.add(
            self.rank, step=self.step_S1, ts_ns=begun, dur_ns=ended - begun, cpu_ns=cpu, kind=kind,
            name=kind, microbatch=self._microbatch(), chunk=self.p,
        )  # fmt: skip
        if self.job.has_ops:
            self._modules(spans, kind, begun, self.of(one.reduced))

    def _modules(self, spans: Rows, kind: str, begun: Ns, reduced: Ns) -> None:
        """Attention and what comes behind it, inside a forward or backward."""
        share_S1 = self.whole.durations.attention_S[:, None]
        paused = self._gc() if kind == "forward" else 0
        between = begun + ((reduced - begun - paused) * share_S1).astype(np.int64)
        for name, begin, end in (
            ("layers.0.attention", begun, between), ("layers.0.mlp", between, reduced)
        ):  # fmt: skip
            cpu = ((end - begin) * self._cpu(2)).astype(np.int64)
            spans.add(
                self.rank, step=self.step_S1, ts_ns=begin, dur_ns=end - begin, cpu_ns=cpu,
                kind=kind, name=name, depth=1, microbatch=self._microbatch(), chunk=self.p,
            )  # fmt: skip

    def _reduces(self, spans: Rows, collectives: Rows, kind: str, one: Pass) -> None:
        job = self.job
        letter = kind[0].upper()
        position_MP = np.empty((job.num_microbatches, job.pp), dtype=np.int64)
        for p in range(job.pp):
            order = one_f_one_b(p, job.pp, job.num_microbatches)
            position_MP[:, p] = [order.index((letter, m)) for m in range(job.num_microbatches)]
        seq = 2 * job.num_microbatches * self.step_S1 + position_MP[:, None, self.p]
        self._collective(
            spans, collectives, "tp", "all_reduce", seq, self.of(one.reduced), self.of(one.ended),
            step=self.step_S1, microbatch=self._microbatch(), num_bytes=TP_BYTES, depth=1,
        )  # fmt: skip

    def _transfers(self, spans: Rows, collectives: Rows, kind: str, one: Pass) -> None:
        """Receives of this stage's inputs and sends of its outputs."""
        job = self.job
        lane = job.dp * job.tp
        ahead = 1 if kind == "forward" else -1  # where outputs go
        seq = self.step_S1 * job.num_microbatches + self._microbatch()
        source = self.p - ahead
        self._collective(
            spans, collectives, "pp", "recv", seq, self.of(one.posted), self.of(one.begun),
            keep=(source >= 0) & (source < job.pp), step=self.step_S1, num_bytes=PP_BYTES,
            microbatch=self._microbatch(), peer=self.rank - ahead * lane,
        )  # fmt: skip
        arrived = np.roll(one.begun, -ahead, axis=2)
        target = self.p + ahead
        self._collective(
            spans, collectives, "pp", "send", seq, self.of(one.ended), self.of(arrived),
            keep=(target >= 0) & (target < job.pp), step=self.step_S1, num_bytes=PP_BYTES,
            microbatch=self._microbatch(), peer=self.rank + ahead * lane, track="send",
        )  # fmt: skip

    def _collective(
        self, spans: Rows, collectives: Rows, axis: str, op: str, seq: Ns, begin: Ns, end: Ns, *,
        step: Ns, num_bytes: int, keep: Mask | None = None,
        microbatch: Ns | int = UNKNOWN, peer: Ns | int = UNKNOWN, track: str = "main",
        depth: int = 0,
    ) -> None:  # fmt: skip
        """One operation as a span and as a row of collectives."""
        group = self.groups[axis]
        spans.add(
            self.rank, keep, step=step, ts_ns=begin, dur_ns=end - begin, cpu_ns=0, name=op,
            track=track, kind="other_comm" if axis == "world" else f"{axis}_comm", depth=depth,
            microbatch=microbatch, group_id=group, coll_seq=seq, peer=peer, num_bytes=num_bytes,
        )  # fmt: skip
        collectives.add(
            self.rank, keep, step=step, group_id=group, seq=seq, op=op, num_bytes=num_bytes,
            peer=peer, tag=0 if axis == "pp" else UNKNOWN, enqueue_ns=begin, start_ns=begin,
            end_ns=end,
        )  # fmt: skip

    def _last_words(self, spans: Rows, collectives: Rows) -> None:
        """The step in which a rank is dead: its data-parallel peers wait for the all-gather."""
        for fault in self.job.faults:
            if fault.kind != "dead_rank" or fault.where is None:
                continue
            step, begin = fault.first_step, self._end_ns()
            alive = self.rank != fault.where
            p, rest = divmod(fault.where, self.job.dp * self.job.tp)
            peers = (self.p == p) & (self.t == rest % self.job.tp)
            spans.add(
                self.rank, alive, step=step, ts_ns=begin, dur_ns=MS, kind="data_wait",
                name="next batch",
            )  # fmt: skip
            if self.job.dp > 1:
                collectives.add(
                    self.rank, alive & peers, step=step, group_id=self.groups["dp"], seq=2 * step,
                    op="all_gather", num_bytes=DP_BYTES, enqueue_ns=begin + MS,
                    start_ns=begin + MS, end_ns=UNKNOWN, state="started",
                )  # fmt: skip

    def _group_rows(self) -> pa.Table:
        """Each group once, written by its first member."""
        rows = []
        for axis, group_R in self.groups.items():
            size, stride = self._axis(axis)
            for rank, number in zip(self.rank.tolist(), group_R.tolist(), strict=True):
                if size > 1 and rank // stride % size == 0:
                    ranks = list(range(rank, rank + size * stride, stride))
                    rows.append(
                        {"attempt": self.job.attempt, "rank": rank, "step": UNKNOWN,
                         "group_id": number, "name": f"{axis}{rank}", "desc": f"mesh_{axis}",
                         "axis": axis, "ranks": ranks}
                    )  # fmt: skip
        return pa.Table.from_pylist(rows, schema=TABLES["groups"].schema)
