"""What a job with phase logs is: its sizes, its timers, the faults planted in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sample_traces.generate.habits import PHASES, Habits

Bool = npt.NDArray[np.bool_]

OWN = PHASES
"""Phases with a rank's own work before the collective."""

PATTERNS = ("steady", "growing", "periodic", "random")


@dataclass(frozen=True)
class LogFault:
    """Time that some ranks lose by themselves.

    `ranks`: none is all of them. `phase`: one of OWN, or tail (the collective itself, all ranks).
    `ms`: mean over the steps it hits. `independent`: each rank draws its own excess in each step.
    Steps are both included. `every`: distance of hit steps if periodic, `share` of hit steps if
    random.
    """

    ranks: tuple[int, ...]
    phase: str
    ms: float
    first_step: int
    last_step: int
    pattern: str = "steady"
    every: int = 1
    share: float = 1.0
    jitter: float = 0.1
    independent: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.phase not in (*OWN, "tail") or self.pattern not in PATTERNS:
            raise ValueError(f"no fault of phase {self.phase!r} and pattern {self.pattern!r}")
        if not 0 <= self.first_step <= self.last_step:
            raise ValueError(f"the fault acts from step {self.first_step} to {self.last_step}")

    def hits(self, num_steps: int) -> Bool:
        """In which of the steps it acts."""
        step_S = np.arange(num_steps)
        acts_S: Bool = (step_S >= self.first_step) & (step_S <= self.last_step)
        if self.pattern == "periodic":
            acts_S &= (step_S - self.first_step) % self.every == 0
        elif self.pattern == "random":
            drawn_S = np.random.default_rng([self.seed, 1]).random(num_steps) < self.share
            drawn_S[self.first_step] = True
            acts_S &= drawn_S
        return acts_S


@dataclass(frozen=True)
class LogJob:
    """A job and its log.

    `shares`: of data, compute and rest in the step without waiting, the rest is the collective
    (`tail`). `hides`: shares of the waiting in data, compute, rest and comm. `lags`: waiting shows
    one step later (asynchronous launch). `keys`: optional keys of a line. `digits`: of ts after the
    point. `noise_seed` differs between jobs, faults do not change what it draws.
    """

    num_ranks: int
    num_steps: int
    step_ms: float
    shares: tuple[tuple[str, float], ...]
    hides: tuple[tuple[str, float], ...]
    keys: frozenset[str]
    habits: Habits = field(default_factory=Habits)
    lags: bool = False
    digits: int = 3
    ranks_per_host: int = 8
    names_hosts: str = "node_rank"
    noise_seed: int = 1
    faults: tuple[LogFault, ...] = ()

    @property
    def tail(self) -> float:
        """Share of the collective itself in the step."""
        return 1 - sum(share for _, share in self.shares)

    @property
    def num_hosts(self) -> int:
        """Hosts of `ranks_per_host` ranks each."""
        return -(-self.num_ranks // self.ranks_per_host)

    def host_of(self, rank: int) -> str:
        """Name of a rank's host as the reader of phase logs shows it, empty: not logged."""
        host = rank // self.ranks_per_host
        return {"node_rank": f"node {host}", "hostname": f"gpu-{host:03d}"}.get(
            self.names_hosts, ""
        )
