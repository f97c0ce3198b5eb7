"""A Megatron job in the StragglerAnalysis schema: interleaved 1F1B, all steps and replicas at once.

Simulated on its own: operations run in the order in which each stage takes them, on a clock, and
nothing of the what-if replay is used. Shape suffixes: S step, D dp rank. Times in seconds.
Schema: https://github.com/ByteDance-Seed/StragglerAnalysis.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sample_traces.generate.pipeline_order import one_f_one_b

Floats = npt.NDArray[np.float64]

OPTYPES = (
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
)
FORWARD_S, BACKWARD_S, WIRE_S = 0.020, 0.040, 0.0004
GATHER_S, SCATTER_S, NORM_S, OPTIMIZER_S = 0.006, 0.010, 0.002, 0.030
_MEAN_S = {"params-all-gather": GATHER_S, "grads-reduce-scatter": SCATTER_S}
NOISE = 0.01
"""Standard deviation of the logarithm of every duration."""

_HABITS_STREAM = 0xAB17
"""Keeps the draw of habits apart from that of durations."""


@dataclass(frozen=True)
class MegatronJob:
    """Sizes of a job and what is wrong with it; raises ValueError naming value and remedy.

    `slow`: (stage, dp rank, factor) of compute; `slow_links`: (stage, dp rank, factor) of transfers
    with the next stage; `slow_networks`: (stage, factor) of collectives over replicas; `pause_s`: a
    pause in a forward of another cell each step; `spread`: of the work of micro-batches (standard
    deviation of the logarithm). All that from step `since` on. What healthy jobs have, too: `noise`
    of every duration, `device_spread`, `ragged` work (standard deviations of the logarithm).
    """

    pp: int
    dp: int
    tp: int = 1
    vpp: int = 1
    num_microbatches: int = 8
    num_steps: int = 10
    seed: int = 1
    slow: tuple[tuple[int, int, float], ...] = ()
    slow_links: tuple[tuple[int, int, float], ...] = ()
    slow_networks: tuple[tuple[int, float], ...] = ()
    pause_s: float = 0.0
    spread: float = 0.0
    since: int = 0
    noise: float = NOISE
    device_spread: float = 0.0
    ragged: float = 0.0

    def __post_init__(self) -> None:
        if min(self.pp, self.dp, self.tp, self.vpp, self.num_microbatches, self.num_steps) < 1:
            raise ValueError(f"{self} has a size below 1; give whole numbers from 1")
        if self.vpp > 1 and (self.pp == 1 or self.num_microbatches % self.pp):
            raise ValueError(
                f"{self.vpp} chunks need at least 2 stages and a multiple of {self.pp} "
                f"micro-batches, not {self.num_microbatches}"
            )
        last_link = self.pp - 1 if self.vpp > 1 else self.pp - 2
        faults = [
            *((*cell, self.pp - 1) for cell in self.slow),
            *((*link, last_link) for link in self.slow_links),
            *((stage, 0, factor, self.pp - 1) for stage, factor in self.slow_networks),
        ]
        for stage, dp, factor, last in faults:
            if not (0 <= stage <= last and 0 <= dp < self.dp and factor > 0):
                raise ValueError(f"slow cell ({stage}, {dp}) times {factor} is not in the job")

    @property
    def metadata(self) -> dict[str, int]:
        """Content of the yaml next to such a trace."""
        return {
            "dp_size": self.dp,
            "dsp_size": 1,
            "pp_size": self.pp,
            "tp_size": self.tp,
            "vpp_size": self.vpp,
            "world_size": self.pp * self.dp * self.tp,
        }

    @cached_property
    def order(self) -> tuple[tuple[tuple[str, int, int], ...], ...]:
        """Per stage: ("F" or "B", chunk, micro-batch) in the order of Megatron's schedule."""
        sizes = self.pp, self.num_microbatches, self.vpp
        return tuple(tuple(one_f_one_b(stage, *sizes)) for stage in range(self.pp))


@dataclass
class _Cell:
    """One stage on all dp ranks: its clock and what it has recorded."""

    free_SD: Floats
    computed_SD: dict[str, Floats]  # end of the newest forward and backward
    gathered: list[Floats] = field(default_factory=list)  # end by chunk
    ops: list[tuple[str, int, int, int, Floats, Floats]] = field(default_factory=list)

    def record(
        self,
        optype: str,
        begin_SD: Floats,
        end_SD: Floats,
        chunk: int = -1,
        virtual: int = -1,
        micro: int = -1,
    ) -> None:
        self.ops.append((optype, chunk, virtual, micro, begin_SD, end_SD))


def straggler_trace(job: MegatronJob) -> pa.Table:
    """All operations of the job, rows sorted by step, dp rank, stage and type."""
    simulation = _Simulation(job)
    simulation.run()
    return _table(job, simulation.cells)


def step_s(job: MegatronJob) -> Floats:
    """How long each step takes, from the first start to the last end."""
    simulation = _Simulation(job)
    simulation.run()
    return simulation.step_s()


def true_S(job: MegatronJob) -> float:
    """S by its definition (2505.05713, Eq. 1): mean step time as drawn / with every operation as
    long as its kind is: the mean of forwards, backwards and optimizers, the median of transfers.
    """
    drawn = _Simulation(job)
    drawn.run()
    usual_s = {
        kind: float(np.mean(took) if kind in _BY_MEAN else np.median(took))
        for kind, took in drawn.took.items()
    }
    ideal = _Simulation(job, usual_s)
    ideal.run()
    return float(drawn.step_s().mean() / ideal.step_s().mean())


_BY_MEAN = ("F", "B", "optimizer")


class _Simulation:
    def __init__(self, job: MegatronJob, usual_s: dict[str, float] | None = None) -> None:
        """`usual_s`: how long every operation of a kind takes, instead of draws."""
        self.job, self.usual_s = job, usual_s
        self.took: dict[str, list[Floats]] = defaultdict(list)
        self.random = np.random.default_rng(job.seed)
        self.habits = np.random.default_rng([job.seed, _HABITS_STREAM])
        shape = (job.num_steps, job.dp)
        begin = self.random.uniform(0, 0.002, (job.pp, *shape))
        self.cells = [_Cell(b, {"F": b, "B": b}) for b in begin]
        faulty = slice(job.since, None)
        self.slow_PSD = np.ones((job.pp, *shape))
        self.slow_PSD *= np.exp(job.device_spread * self._habits((job.pp, 1, job.dp)).clip(-2, 2))
        for stage, dp, factor in job.slow:
            self.slow_PSD[stage, faulty, dp] *= factor
        self.link_PSD = np.ones((job.pp, *shape))  # from a stage to the next and back
        for stage, dp, factor in job.slow_links:
            self.link_PSD[stage, faulty, dp] *= factor
        self.network_PS1 = np.ones((job.pp, job.num_steps, 1))
        for stage, factor in job.slow_networks:
            self.network_PS1[stage, faulty] *= factor
        draws = self.random.standard_normal((job.num_microbatches, *shape))
        draws[:, : job.since] = 0.0
        self.work_MSD = np.exp(job.spread * draws + job.ragged * self._habits(draws.shape))
        self.pauses = [  # (stage, dp rank, micro-batch) by step
            tuple(self.random.integers(0, (job.pp, job.dp, job.num_microbatches)).tolist())
            for _ in range(job.num_steps)
        ]
        self.outputs: dict[tuple[str, int, int], Floats] = {}  # when the next stage can have it

    def _habits(self, shape: tuple[int, ...]) -> Floats:
        """Normal numbers that leave the other draws as they are."""
        return self.habits.standard_normal(shape)

    def run(self) -> None:
        """Gathers, the pipeline, and the tail of every stage."""
        for stage, cell in enumerate(self.cells):
            at_SD = cell.free_SD
            for chunk in range(self.job.vpp):
                at_SD = self._gather(cell, stage, "params-all-gather", chunk, at_SD)
                cell.gathered.append(at_SD)
        self._pipeline()
        self._tail()

    def step_s(self) -> Floats:
        """From the first start to the last end of each step."""
        ops = [op for cell in self.cells for op in cell.ops]
        first_S = np.min([op[4].min(axis=1) for op in ops], axis=0)
        last_S: Floats = np.max([op[5].max(axis=1) for op in ops], axis=0)
        return last_S - first_S

    def _drawn(self, kind: str, mean_s: float, factor: float | Floats = 1.0) -> Floats:
        """How long an operation takes on every step and dp rank."""
        shape = (self.job.num_steps, self.job.dp)
        if self.usual_s is not None:
            return np.full(shape, self.usual_s[kind])
        noise = np.exp(self.job.noise * self.random.standard_normal(shape))
        self.took[kind].append(mean_s * noise * factor)
        return self.took[kind][-1]

    def _gather(self, cell: _Cell, stage: int, optype: str, chunk: int, begin: Floats) -> Floats:
        """End of a collective over all dp ranks of a stage, where there are several."""
        if self.job.dp == 1:
            return begin
        took = self._drawn(optype, _MEAN_S[optype], self.network_PS1[stage])
        end: Floats = begin.max(axis=1, keepdims=True) + took
        cell.record(optype, begin, end, chunk)
        return end

    def _pipeline(self) -> None:
        left = [list(order) for order in self.job.order]
        while any(left):
            before = sum(map(len, left))
            for stage, ahead in enumerate(left):
                while ahead and self._try(stage, *ahead[0]):
                    ahead.pop(0)
            if sum(map(len, left)) == before:
                raise RuntimeError("the schedule waits for itself")

    def _try(self, stage: int, kind: str, chunk: int, micro: int) -> bool:
        """Run one compute with its receive and send, if its input exists already."""
        job, cell = self.job, self.cells[stage]
        virtual, ahead = chunk * job.pp + stage, 1 if kind == "F" else -1
        last = job.pp * job.vpp - 1
        source, target = virtual - ahead, virtual + ahead
        if 0 <= source <= last and (kind, source, micro) not in self.outputs:
            return False
        name = "forward" if kind == "F" else "backward"
        arrived = cell.computed_SD[kind]
        if 0 <= source <= last:
            posted = cell.computed_SD[kind]
            arrived = np.maximum(posted, self.outputs[kind, source, micro])
            arrived = arrived + self._wire(name, stage, -ahead)
            cell.record(f"{name}-recv", posted, arrived)
        elif job.vpp > 1:
            cell.record(f"{name}-recv", arrived, arrived)
        begin = np.maximum(np.maximum(cell.free_SD, arrived), cell.gathered[chunk])
        mean_s = (FORWARD_S if kind == "F" else BACKWARD_S) / job.vpp
        factor = self.slow_PSD[stage] * self.work_MSD[micro]
        if kind == "F" and chunk == 0:
            factor = factor + self._pause(stage, micro) / mean_s
        end = begin + self._drawn(kind, mean_s, factor)
        cell.record(f"{name}-compute", begin, end, chunk, virtual, micro)
        cell.free_SD = cell.computed_SD[kind] = end
        self.outputs[kind, virtual, micro] = end
        if 0 <= target <= last:
            cell.record(f"{name}-send", end, end + self._wire(name, stage, ahead))
        elif job.vpp > 1:
            cell.record(f"{name}-send", end, end)
        return True

    def _wire(self, name: str, stage: int, towards: int) -> Floats:
        """Transfer time with the next (1) or the previous (-1) stage."""
        link = stage if towards > 0 else (stage - 1) % self.job.pp
        return self._drawn(name, WIRE_S, self.link_PSD[link])

    def _pause(self, stage: int, micro: int) -> Floats:
        pauses = np.zeros((self.job.num_steps, self.job.dp))
        for step, (paused_step, dp, m) in enumerate(self.pauses):
            is_here = step >= self.job.since and paused_step == stage and m == micro
            pauses[step, dp] = self.job.pause_s * is_here
        return pauses

    def _tail(self) -> None:
        for cell in self.cells:
            cell.record("gc", cell.free_SD, cell.free_SD)
            optype = "layernorm-grads-all-reduce"
            begin, cell.free_SD = cell.free_SD, cell.free_SD + self._drawn(optype, 0.0001)
            cell.record(optype, begin, cell.free_SD)
        ends = [self.cells[0], self.cells[-1]]
        if self.job.pp > 1:
            self._together(ends, "embedding-grads-all-reduce", over_dp=False)
        for stage, cell in enumerate(self.cells):
            for chunk in range(self.job.vpp):
                cell.free_SD = self._gather(
                    cell, stage, "grads-reduce-scatter", chunk, cell.free_SD
                )
        self._together(self.cells, "optimizer-clip-main-grad", over_dp=True)
        for cell in self.cells:
            cell.record(
                "optimizer", cell.free_SD, cell.free_SD + self._drawn("optimizer", OPTIMIZER_S)
            )

    def _together(self, cells: list[_Cell], optype: str, over_dp: bool) -> None:
        latest = np.max([cell.free_SD for cell in cells], axis=0)
        if over_dp:
            latest = latest.max(axis=1, keepdims=True)
        for cell in cells:
            begin, cell.free_SD = cell.free_SD, latest + self._drawn(optype, NORM_S)
            cell.record(optype, begin, cell.free_SD)


def _table(job: MegatronJob, cells: list[_Cell]) -> pa.Table:
    flat = [(stage, *op) for stage, cell in enumerate(cells) for op in cell.ops]
    first_S = np.min([op[5].min(axis=1) for op in flat], axis=0)
    counts: dict[tuple[int, str], int] = {}
    seqs = []
    for stage, optype, *_ in flat:
        seqs.append(counts.get((stage, optype), 0))
        counts[stage, optype] = seqs[-1] + 1

    def spread(values: list[int], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        return np.tile(np.array(values, dtype), job.num_steps * job.dp)

    def times(index: int) -> Floats:
        moments = np.stack([op[index] for op in flat]) - first_S[:, None]
        return np.moveaxis(moments, 0, -1).ravel()

    dp = np.tile(np.repeat(np.arange(job.dp), len(flat)), job.num_steps)
    stage = spread([op[0] for op in flat], np.int64)
    start, end = times(5).astype(np.float32), times(6).astype(np.float32)
    codes = spread([OPTYPES.index(op[1]) for op in flat], np.int8)
    return pa.table(
        {
            "dp_rank": pa.array(dp.astype(np.int8)),
            "stage": pa.array(stage.astype(np.int8)),
            "rank": pa.array((stage * job.dp * job.tp + dp * job.tp).astype(np.int16)),
            "step": pa.array(np.repeat(np.arange(job.num_steps), job.dp * len(flat))),
            "optype": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(OPTYPES)),
            "start_ts": pa.array(start),
            "duration": pa.array(np.maximum(end - start, 0)),
            "seq_id": pa.array(spread(seqs, np.int32)),
            "mc": pa.array(spread([op[2] for op in flat], np.int8)),
            "mb_id": pa.array(spread([op[4] for op in flat], np.int16)),
            "gmc": pa.array(spread([op[3] for op in flat], np.int16)),
        }
    )
