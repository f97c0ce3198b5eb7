"""Parameters of the worlds that labelled jobs are drawn from, as ranges.

No detector may import this module, nor anything else outside of the generator and its benchmark: a
diagnosis that knows a world proves nothing about others (tests/sample_traces/generate/labelled).
Pairs are the least and the most of an even draw, longer tuples are choices. Shares are of the step
without waiting, probabilities of a job unless noted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

Range = tuple[float, float]


@dataclass(frozen=True)
class HabitRanges:
    """What a field means for a job: habits.py. `*_in`: phases that a habit is drawn from."""

    noise: Range = (0.003, 0.03)
    common: Range = (0.0, 0.02)
    device: Range = (0.0, 0.015)
    memory: Range = (1.0, 30.0)
    data_noise: Range = (0.05, 0.5)
    spikes: Range = (0.0, 0.004)
    """Probability of a step of a rank."""
    spike: Range = (0.05, 0.6)
    spikes_in: tuple[str, ...] = ("data", "data", "compute", "rest")
    quirks: float = 0.3
    quirk: Range = (0.005, 0.03)
    roles: float = 0.12
    role: Range = (0.8, 1.25)
    warm_ups: float = 0.6
    warm_up: Range = (0.1, 3.0)
    settles: Range = (1.0, 12.0)
    trend: Range = (-0.03, 0.03)
    periodic: float = 0.5
    every: Range = (50, 200)
    unnamed: Range = (0.2, 3.0)
    unnamed_in: tuple[str, ...] = ("rest", "rest", "compute", "data")
    slow: float = 0.2
    slow_steps: Range = (20, 120)
    slow_by: Range = (0.06, 0.5)
    swing: Range = (0.0, 0.0)
    swing_in: tuple[str, ...] = ("compute", "data", "rest")
    stalls: float = 0.0
    stall_steps: Range = (30, 100)
    stall_by: Range = (0.08, 0.4)
    stalls_in: tuple[str, ...] = ("data", "data", "rest", "compute")


@dataclass(frozen=True)
class LogWorld:
    """Jobs with phase logs. What a field means for a job: phase_log/job.py.

    `hides`: weights of the timer in which waiting hides; `mixed`: probability that a part of it
    shows in what no timer covers.
    """

    num_ranks: tuple[int, ...] = (8, 8, 12, 16, 16, 24, 32, 48, 64)
    ranks_per_host: tuple[int, ...] = (4, 8, 8, 16)
    one_host: float = 0.4
    num_steps: Range = (100, 500)
    step_ms: Range = (30.0, 3000.0)
    data: Range = (0.004, 0.06)
    rest: Range = (0.004, 0.12)
    tail: Range = (0.0, 0.08)
    hides: tuple[tuple[str, float], ...] = (
        ("compute", 0.45),
        ("data", 0.2),
        ("rest", 0.2),
        ("comm", 0.15),
    )
    mixed: float = 0.2
    mixed_share: Range = (0.1, 0.5)
    lags: float = 0.25
    logs_comm: float = 0.75
    logs_wait: float = 0.5
    logs_time: float = 0.9
    logs_size: float = 0.7
    names_hosts: tuple[str, ...] = ("node_rank", "node_rank", "hostname", "")
    digits: tuple[int, ...] = (3, 3, 6)
    habits: HabitRanges = field(default_factory=HabitRanges)
    two_faults: float = 0.2
    two_culprits: float = 0.15
    from_the_first: float = 0.12
    to_the_end: float = 0.4
    fault_steps: Range = (30, 220)
    patterns: tuple[str, ...] = ("steady", "steady", "steady", "growing", "random", "periodic")
    fault_every: tuple[int, ...] = (2, 4, 10)
    fault_share: Range = (0.3, 0.8)


PHASE_LOG = LogWorld()

HOST_BOUND_HABITS = HabitRanges(
    noise=(0.01, 0.06),
    common=(0.0, 0.06),
    memory=(2.0, 25.0),
    spikes=(0.0, 0.02),
    swing=(0.05, 0.15),
    stalls=0.7,
)
HOST_BOUND = replace(PHASE_LOG, data=(0.01, 0.25), rest=(0.01, 0.25), habits=HOST_BOUND_HABITS)
"""Ranks swing by 10 to 30 %; for a while one rank stalls in every second step, later another."""

TWO_FAULTS = replace(PHASE_LOG, two_faults=0.6, two_culprits=0.4)

RESAMPLED = PHASE_LOG
"""Habits and waiting are those of the recording."""

LOG_WORLDS = {
    "phase_log": PHASE_LOG,
    "host_bound": HOST_BOUND,
    "two_faults": TWO_FAULTS,
    "resampled": RESAMPLED,
}


@dataclass(frozen=True)
class NativeWorld:
    """Jobs with the tables of the hooks. `hides`: where waiting shows (job.py), one of them."""

    hides: tuple[str, ...] = ("",)
    habits: HabitRanges | None = None
    most_tp: int = 8


SHORT_HABITS = HabitRanges(
    noise=(0.001, 0.01),
    memory=(2.0, 8.0),
    device=(0.0, 0.01),
    spikes=(0.0, 0.001),
    quirks=0.0,
    roles=0.0,
    warm_ups=0.3,
    warm_up=(0.1, 1.0),
    settles=(0.5, 3.0),
    periodic=0.25,
    every=(7.0, 14.0),
    unnamed=(0.3, 1.5),
    unnamed_in=("rest",),
    slow=0.0,
    stall_steps=(8.0, 20.0),
)
"""Of jobs of 40 steps, which are too short for slow stretches that are no fault."""

ASYNC_NATIVE = NativeWorld(hides=("compute", "compute", "rest"), habits=SHORT_HABITS, most_tp=1)
"""Asynchronous launch: communication is seen only as its tail, and waiting in compute or nowhere.

Not with tensor parallelism: there every forward of a group would take as long as its slowest rank's
and only the group could be named.
"""
HOST_BOUND_NATIVE = NativeWorld(
    habits=replace(
        SHORT_HABITS,
        noise=(0.01, 0.06),
        common=(0.0, 0.06),
        spikes=(0.0, 0.02),
        swing=(0.03, 0.08),
        stalls=0.7,
    )
)
RESAMPLED_NATIVE = NativeWorld()

NATIVE_WORLDS = {
    "native": NativeWorld(),
    "async_native": ASYNC_NATIVE,
    "host_bound_native": HOST_BOUND_NATIVE,
    "resampled_native": RESAMPLED_NATIVE,
}

RECORDED = ("resampled", "resampled_native")
"""Worlds whose noise is that of recorded jobs."""
