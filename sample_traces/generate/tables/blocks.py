"""A synthetic job as replayed, and one block of its ranks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sample_traces.generate.durations import Durations, Float, Ns
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.clocks import Clocks
from sample_traces.generate.simulation.replay import Pass, Times
from sample_traces.generate.tables.model_health import ModelHealth, model_health
from sample_traces.generate.tables.rows import Rows
from trace_hooks.sources.communication.process_groups import group_id

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True)
class Synthetic:
    """Everything known about a synthetic job before it is written."""

    job: SyntheticJob
    durations: Durations
    times: Times
    clocks: Clocks
    created_ns: int

    @cached_property
    def health(self) -> ModelHealth:
        """The statistics of its model."""
        return model_health(self.job)


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

    def axis(self, axis: str) -> tuple[int, int]:
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
        size, stride = self.axis(axis)
        first_R = self.rank - self.rank // stride % size * stride
        unique, inverse = np.unique(first_R, return_inverse=True)
        # the group of all ranks is one of its own, also where an axis spans them: each its numbers
        ordinal = int(axis == "world")
        ids = [group_id(range(f, f + size * stride, stride), ordinal) for f in unique.tolist()]
        return np.array(ids, dtype=np.int64)[inverse]

    def of(self, array: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """The block's part of an array whose last axes are P, D, T."""
        flat = array.reshape(*array.shape[:-3], self.job.num_ranks)
        return flat[..., self.rank[0] : self.rank[-1] + 1]

    def of_pass(self, passes: Pass) -> Pass:
        """The block's part of all forwards or backwards, (M, S, R) each."""
        return Pass(*(self.of(getattr(passes, one.name)) for one in fields(Pass)))

    def rows(self, table: str) -> Rows:
        """Empty rows of a table on the clocks of the job."""
        job = self.job
        return Rows(table, self.whole.clocks.offset_R, job.attempt, job.resumed_at)

    def cpu_share(self, dims: int) -> Float:
        """CPU time per wall time of compute, (S, R) behind dims - 1 axes of length 1."""
        share = 1 / self.of(self.whole.durations.wall_per_cpu_SPDT)
        return share.reshape((1,) * (dims - 1) + share.shape)

    def gc_ns(self) -> Ns:
        """Collections within each forward, (M, S, R)."""
        return self.of(self.whole.durations.gc_MSPDT).astype(np.int64)

    def microbatch(self) -> Ns:
        """Micro-batch of each unit, in front of axes for steps and ranks."""
        return np.arange(self.job.units)[:, None, None] % self.job.num_microbatches

    def virtual_stage(self) -> Ns:
        """Virtual stage of each unit, (M, 1, R)."""
        return (
            np.arange(self.job.units)[:, None, None] // self.job.num_microbatches * self.job.pp
            + self.p
        )

    def end_ns(self) -> int:
        """When the last completed step of the job ended."""
        if not self.job.steps_completed:
            return self.whole.created_ns
        return int(self.whole.times.ended[-1].max())
