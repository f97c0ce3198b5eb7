"""What a synthetic job is: its size and the faults planted in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sample_traces.generate.faults import KINDS, OF_THE_MODEL, SyntheticFault
from sample_traces.generate.habits import Habits
from trace_hooks.layout import ParallelLayout

LEVELS = ("steps", "spans")
"""steps: the phases of each step as sums; spans: every forward, backward and collective."""

HIDES = ("", "compute", "rest")

RANKS_PER_HOST = 8

MAX_RANKS = 65_536


@dataclass(frozen=True)
class SyntheticJob:
    """Sizes, level, seed and faults of a job; raises ValueError naming the value and the remedy.

    `chunks`: parts of the model on each stage, above 1: interleaved 1F1B. `pace`: how many times
    longer everything takes. `noise`: times the usual one. `device_spread`, `ragged`: how unlike
    devices and micro-batches of a healthy job are (standard deviations of the logarithm of
    compute). `save_ms`: how long all ranks save every tenth step. `ops`: level spans holds modules,
    too. `statistics`: steps from one with statistics of the model to the next, 0: none. `habits`:
    more of what a healthy job does. `hides`: where the hooks see waiting: "" in the collective,
    "compute" in the backward before it, "rest" nowhere. `recorded`: file of a recorded job whose
    noise compute has, "" none; `recorded_on`: the ranks that have it, none are all. `attempt`:
    which start of the job this is, `resumed_at`: number of its first step.
    """

    num_ranks: int
    pp: int = 1
    tp: int = 1
    num_steps: int = 20
    num_microbatches: int = 8
    chunks: int = 1
    level: str = "spans"
    seed: int = 1
    faults: tuple[SyntheticFault, ...] = ()
    pace: float = 1.0
    noise: float = 1.0
    device_spread: float = 0.0
    ragged: float = 0.0
    save_ms: float = 0.0
    ops: bool = False
    statistics: int = 0
    habits: Habits | None = None
    hides: str = ""
    recorded: str = ""
    recorded_on: tuple[int, ...] = ()
    attempt: int = 0
    resumed_at: int = 0

    def __post_init__(self) -> None:
        for name in ("num_ranks", "pp", "tp", "num_steps", "num_microbatches", "chunks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a whole number from 1")
        if self.pace <= 0:
            raise ValueError(f"pace is {self.pace}; give a number above 0")
        for name in ("noise", "device_spread", "ragged", "save_ms", "statistics"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        if self.num_ranks > MAX_RANKS:
            raise ValueError(f"{self.num_ranks} ranks are too many; give at most {MAX_RANKS}")
        if self.num_ranks % (self.pp * self.tp):
            raise ValueError(
                f"{self.num_ranks} ranks do not divide by pp {self.pp} x tp {self.tp}; "
                f"give a multiple of {self.pp * self.tp}"
            )
        if self.chunks > 1 and (self.pp < 3 or self.num_microbatches % self.pp):
            raise ValueError(
                f"{self.chunks} chunks need 3 stages and a number of micro-batches that {self.pp} "
                f"divides, not pp {self.pp} and {self.num_microbatches} micro-batches"
            )
        if self.level not in LEVELS:
            raise ValueError(f"unknown level {self.level!r}; known: {', '.join(LEVELS)}")
        if self.hides not in HIDES:
            raise ValueError(f"waiting hides in {self.hides!r}; known: {', '.join(HIDES)}")
        for fault in self.faults:
            self._check(fault)

    def _check(self, fault: SyntheticFault) -> None:
        target = KINDS[fault.kind].target
        room = {"rank": self.num_ranks, "stage": self.pp, "host": self.num_hosts}.get(target)
        if room is not None and (fault.where is None or fault.where >= room):
            raise ValueError(
                f"fault {fault.kind} hits {target} {fault.where} of {room}; give 0 to {room - 1}"
            )
        if fault.first_step >= self.num_steps:
            raise ValueError(
                f"fault {fault.kind} begins in step {fault.first_step} of {self.num_steps}; "
                "lower from= or raise the number of steps"
            )
        last_stage = self.num_ranks - self.dp * self.tp
        if (
            fault.kind in ("slow_link", "link_flap")
            and fault.where is not None
            and fault.where >= last_stage
        ):
            raise ValueError(
                f"rank {fault.where} is on the last stage and sends no activations; "
                "name a rank of an earlier stage, or raise --pp"
            )

    @property
    def has_ops(self) -> bool:
        """Whether modules are recorded: a slow one is identified by its name."""
        return self.ops or any(fault.kind == "slow_op" for fault in self.faults)

    @property
    def statistics_every(self) -> int:
        """Steps from one with statistics to the next, 0 none; faults of the model need them."""
        shown = any(fault.kind in OF_THE_MODEL for fault in self.faults)
        return self.statistics or int(shown)

    @property
    def dp(self) -> int:
        """Data-parallel size."""
        return self.num_ranks // (self.pp * self.tp)

    @property
    def units(self) -> int:
        """Forwards of a rank in a step: every micro-batch on every chunk."""
        return self.chunks * self.num_microbatches

    @property
    def num_hosts(self) -> int:
        """Hosts, of RANKS_PER_HOST ranks each."""
        return -(-self.num_ranks // RANKS_PER_HOST)

    @cached_property
    def layout(self) -> ParallelLayout:
        """pp x dp x tp, tp fastest."""
        return ParallelLayout((("pp", self.pp), ("dp", self.dp), ("tp", self.tp)))

    @property
    def steps_completed(self) -> int:
        """Steps that end: a dead rank stops the job."""
        deaths = [fault.first_step for fault in self.faults if fault.kind == "dead_rank"]
        return min([self.num_steps, *deaths])


def cell(job: SyntheticJob, rank: int) -> tuple[int, int, int]:
    """(p, d, t) of a global rank."""
    p, rest = divmod(rank, job.dp * job.tp)
    return (p, *divmod(rest, job.tp))


def on_host(job: SyntheticJob, host: int) -> npt.NDArray[np.bool_]:
    """Which cells (P, D, T) lie on a host."""
    hosts = np.arange(job.num_ranks) // RANKS_PER_HOST
    return (hosts == host).reshape(job.pp, job.dp, job.tp)


def host_name(rank: int) -> str:
    """Name of the host a rank runs on."""
    return f"node{rank // RANKS_PER_HOST:04d}"
