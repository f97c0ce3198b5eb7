"""The kinds of faults that real jobs get, what a right diagnosis calls each, and the jobs.

What counts as right is decided here, before anything is scored: the kinds of findings that fit a
fault, and whom they must name.
"""

from __future__ import annotations

from dataclasses import dataclass

DOSES = {"loud": 1.5, "quiet": 1.15, "masked": 1.05}
"""Least step time with the fault / without."""

WHOLE_JOB = ("step_regression",)
"""Kinds of findings that say that all steps take longer, and name nobody."""

RECORDING = ("data_gaps", "clock_unaligned", "monitor_overhead")
"""Kinds of findings about what was recorded, not about what is slow; they are counted apart."""

GC_OBJECTS_PER_S = 600_000
"""Made, linked in cycles and collected, on a core that others use, too."""
MB_PER_S = 1_000.0
"""Of new memory, and of extra bytes between two processes of one machine."""
ALL_REDUCES = 16
"""Of the blocks of one rank of the 3D job per step: 2 layers x 2 x 4 micro-batches."""
REPLICA_COLLECTIVES = 6
"""Per step and group of replicas, roughly: gathers and reductions of FSDP2."""


@dataclass(frozen=True)
class Layout:
    """A job: how its ranks share the model."""

    num_ranks: int
    options: tuple[str, ...]


LAYOUTS = {
    "3d": Layout(8, ("--pp", "2", "--dp", "2", "--tp", "2")),
    "fsdp": Layout(8, ("--pp", "1", "--dp", "8", "--tp", "1")),
    "ddp": Layout(4, ("--pp", "1", "--dp", "4", "--tp", "1", "--data-parallel", "ddp")),
}

MODEL = ("--batch", "1", "--width", "128", "--seq", "64")


@dataclass(frozen=True)
class Kind:
    """One kind of fault. `fault`: its name for the job; `right`: kinds of findings that fit.

    `whom`: one, two or pair (two ends of a link); all and rotating: a finding must name nobody.
    `gain`: own time of the fault for the step time that it is to cost, before a job has measured
    it. `every`: it strikes once in so many steps.
    """

    fault: str
    right: tuple[str, ...]
    whom: str = "one"
    gain: float = 1.2
    every: int = 1
    layouts: tuple[str, ...] = tuple(LAYOUTS)

    @property
    def names_nobody(self) -> bool:
        """Whether no single rank is the reason."""
        return self.whom in ("all", "rotating")


KINDS = {
    "slow-rank": Kind("slow-rank", ("slow_worker",), gain=4.0),
    "two-slow-ranks": Kind("slow-rank", ("slow_worker",), "two", gain=3.0),
    "slow-job": Kind("slow-job", WHOLE_JOB, "all", gain=1.4),
    "late-rank": Kind("late-rank", ("launch_skew",), layouts=("3d",)),
    "late-step": Kind("late-step", ("launch_skew",)),
    "two-late-ranks": Kind("late-step", ("launch_skew",), "two"),
    "rotating-late": Kind("late-step", ("launch_skew",), "rotating"),
    "slow-loader": Kind("slow-loader", ("data_loader",)),
    "slow-loader-all": Kind("slow-loader", ("data_loader",), "all", gain=1.1),
    "gc": Kind("gc", ("gc_pauses",), gain=1.0),
    "gc-rotating": Kind("gc", ("gc_pauses",), "rotating", gain=1.0),
    "slow-save": Kind("slow-save", ("slow_checkpoint",), every=8),
    "slow-save-all": Kind("slow-save", ("slow_checkpoint",), "all", every=8),
    "burner": Kind("burner", ("launch_skew", "host_contention"), gain=3.0),
    "page-faults": Kind(
        "page-faults", ("jit_spikes", "allocator_stalls", "slow_worker", "launch_skew"), every=7
    ),
    "spikes": Kind("spikes", ("jit_spikes",), every=10),
    "spikes-all": Kind("spikes", ("jit_spikes",), "all", gain=0.4, every=10),
    "slow-link": Kind("slow-link", ("slow_link", "slow_dp_network"), "pair", layouts=("3d",)),
    "slow-network": Kind(
        "slow-network",
        ("comm_regression", "slow_dp_network", "many_hosts_slow", *WHOLE_JOB),
        "all",
        gain=0.5,
        layouts=("3d", "fsdp"),
    ),
}


def amount(name: str, own_ms: float, own: float) -> str:
    """The dose as the job takes it. `own_ms`: per step on average, `own`: the same of a step."""
    kind = KINDS[name]
    each_ms = own_ms * kind.every
    return {
        "slow-rank": f"x={1 + own:.3f}",
        "slow-job": f"x={1 + own:.3f}",
        "late-rank": f"ms={own_ms / ALL_REDUCES:.3f}",
        "late-step": f"ms={own_ms:.1f}",
        "slow-loader": f"ms={own_ms:.1f}",
        "gc": f"objects={max(int(own_ms / 1e3 * GC_OBJECTS_PER_S), 1000)}",
        "slow-save": f"ms={each_ms:.1f},every={kind.every}",
        "burner": f"share={own:.2f}",
        "page-faults": f"mb={each_ms / 1e3 * MB_PER_S:.1f},every={kind.every}",
        "spikes": f"ms={each_ms:.1f},every={kind.every}",
        "slow-link": f"mb={own_ms / 1e3 * MB_PER_S / REPLICA_COLLECTIVES:.3f}",
        "slow-network": f"mb={own_ms / 1e3 * MB_PER_S / REPLICA_COLLECTIVES:.3f}",
    }[kind.fault]
