"""Jobs with phase logs and labelled faults, drawn at random from the ranges of a world."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from sample_traces.generate.labelled.doses import DOSES, dose_reaching
from sample_traces.generate.labelled.labels import Label
from sample_traces.generate.labelled.log_labels import Plan, labels_of
from sample_traces.generate.labelled.step_truth import StepTruth
from sample_traces.generate.labelled.worlds import LogWorld, Range
from sample_traces.generate.phase_log.job import OWN, Habits, LogFault, LogJob
from sample_traces.generate.phase_log.simulate import simulate
from sample_traces.generate.phase_log.write import write_log

KINDS = ("late_in_data", "late_in_compute", "late_elsewhere", "host_wide", "job_slower")
"""What is planted: a rank (or two) late by a phase, all ranks of a host, the whole job."""

_PHASE = {"late_in_data": "data", "late_in_compute": "compute", "late_elsewhere": "rest"}
_TRIES = 20
_T = TypeVar("_T")
Random = np.random.Generator


@dataclass(frozen=True)
class LabelledLog:
    """A job with phase logs and what a diagnosis should find in it."""

    job: LogJob
    labels: tuple[Label, ...]

    @property
    def shape(self) -> str:
        """Sizes, step time and where waiting hides, in words."""
        job = self.job
        hides = "+".join(name for name, share in job.hides if share)
        lags = ", one step late" if job.lags else ""
        return f"{job.num_ranks} ranks, step {job.step_ms:.0f} ms, waits in {hides}{lags}"

    @property
    def steps(self) -> StepTruth:
        """Step times with and without the faults."""
        return StepTruth(simulate(self.job).step_S, simulate(replace(self.job, faults=())).step_S)

    @property
    def rank_s(self) -> float:
        """Seconds of all ranks together."""
        return float(simulate(self.job).step_S.sum()) / 1000 * self.job.num_ranks

    @property
    def rank_steps(self) -> int:
        """Steps of all ranks together."""
        return self.job.num_steps * self.job.num_ranks

    def write(self, folder: Path) -> tuple[Path, None]:
        """One file per rank; the folder to read, and no baseline."""
        return write_log(self.job, simulate(self.job), folder / "logs"), None


def draw_log(world: LogWorld, kind: str | None, dose: str, seed: int) -> LabelledLog:
    """A job with a fault of a kind (None: healthy) and dose; equal for equal arguments."""
    random = np.random.default_rng(seed)
    for _ in range(_TRIES):
        job = _job(random, world)
        if kind is None:
            return LabelledLog(job, ())
        with contextlib.suppress(ValueError):  # no dose reaches its aim: another job
            plans = _plans(random, world, job, kind, DOSES[dose])
            job = replace(job, faults=tuple(plan.fault for plan in plans))
            return LabelledLog(job, labels_of(job, plans))
    raise ValueError(f"no job of {_TRIES} can have {kind} at dose {dose}")


def _job(random: Random, world: LogWorld) -> LogJob:
    num_ranks = _one_of(random, world.num_ranks)
    num_steps = int(random.integers(int(world.num_steps[0]), int(world.num_steps[1]) + 1))
    shares = {"data": _even(random, world.data), "rest": _even(random, world.rest)}
    shares["compute"] = 1 - sum(shares.values()) - _even(random, world.tail)
    one_host = random.random() < world.one_host
    hides = _hides(random, world)
    logs = {"comm_ms": world.logs_comm, "wait_ms": world.logs_wait, "ts": world.logs_time}
    logs["world_size"] = world.logs_size
    keys = {key for key, likely in logs.items() if random.random() < likely}
    keys |= {"data_ms", "compute_ms", "step_ms"} | ({"comm_ms"} if "comm" in hides else set())
    return LogJob(
        num_ranks,
        num_steps,
        step_ms=_log_even(random, world.step_ms),
        shares=tuple((name, shares[name]) for name in OWN),
        hides=tuple(hides.items()),
        keys=frozenset(keys),
        habits=_habits(random, world, num_ranks, num_steps),
        lags="data" in hides and random.random() < world.lags,
        digits=_one_of(random, world.digits),
        ranks_per_host=num_ranks if one_host else _one_of(random, world.ranks_per_host),
        names_hosts=_one_of(random, world.names_hosts),
        noise_seed=int(random.integers(2**31)),
    )


def _hides(random: Random, world: LogWorld) -> dict[str, float]:
    """Share of the waiting by timer."""
    names, weights = zip(*world.hides, strict=True)
    name = str(random.choice(names, p=weights))
    if name == "rest" or random.random() >= world.mixed:
        return {name: 1.0}
    part = _even(random, world.mixed_share)
    return {name: 1 - part, "rest": part}


def _habits(random: Random, world: LogWorld, num_ranks: int, num_steps: int) -> Habits:
    def maybe(likely: float, of: Range) -> float:
        return _even(random, of) if random.random() < likely else 0.0

    periodic = random.random() < world.periodic
    roles = (1.0,)
    if random.random() < world.roles:
        roles = tuple(_even(random, world.role) for _ in range(int(random.choice([2, 4]))))
    return Habits(
        noise=_log_even(random, world.noise),
        swing=_even(random, world.swing),
        memory=_log_even(random, world.memory),
        common=_even(random, world.common),
        device=_even(random, world.device),
        data_noise=_even(random, world.data_noise),
        spikes=_even(random, world.spikes),
        spike=_even(random, world.spike),
        spike_phase=_one_of(random, world.spikes_in),
        swing_phase=_one_of(random, world.swing_in),
        quirk=maybe(world.quirks, world.quirk),
        quirk_phase=_one_of(random, ("rest", "data")),
        roles=roles,
        warm_up=maybe(world.warm_ups, world.warm_up),
        settles=_log_even(random, world.settles),
        trend=_even(random, world.trend),
        every=int(_even(random, world.every)) if periodic else 0,
        unnamed=_even(random, world.unnamed),
        unnamed_phase=_one_of(random, world.unnamed_in),
        slow=_slow(random, world, num_steps),
        stalls=_stalls(random, world, num_ranks, num_steps),
        stall_phase=_one_of(random, world.stalls_in),
    )


def _slow(random: Random, world: LogWorld, num_steps: int) -> tuple[tuple[int, int, float], ...]:
    """Steps in which the whole job is slower and nobody is the reason."""
    if random.random() >= world.slow:
        return ()
    length = min(int(_even(random, world.slow_steps)), num_steps // 2)
    first = int(random.integers(10, num_steps - length))
    return ((first, first + length - 1, _even(random, world.slow_by)),)


def _stalls(
    random: Random, world: LogWorld, num_ranks: int, num_steps: int
) -> tuple[tuple[int, int, int, float], ...]:
    """For a while one rank stalls in every second step, then another."""
    found = []
    first = int(random.integers(5, 60))
    while first < num_steps and random.random() < world.stalls:
        last = min(first + int(_even(random, world.stall_steps)), num_steps - 1)
        found.append((first, last, int(random.integers(num_ranks)), _even(random, world.stall_by)))
        first = last + int(random.integers(1, 40))
    return tuple(found)


def _plans(
    random: Random, world: LogWorld, job: LogJob, kind: str, least: float
) -> tuple[Plan, ...]:
    """The fault, perhaps a second culprit, perhaps a second fault."""
    drawn = [_plan(random, world, job, kind)]
    if kind in _PHASE and random.random() < world.two_culprits:
        twin = drawn[0].fault
        other = (twin.ranks[0] + int(random.integers(1, job.num_ranks))) % job.num_ranks
        drawn.append(replace(drawn[0], fault=replace(twin, ranks=(other,), seed=twin.seed + 1)))
    elif random.random() < world.two_faults:
        second = _plan(random, world, job, str(random.choice(tuple(_PHASE))))
        if not set(second.fault.ranks) & set(drawn[0].fault.ranks):
            drawn.append(second)
    return tuple(replace(plan, fault=dosed(job, plan.fault, least)) for plan in drawn)


def _plan(random: Random, world: LogWorld, job: LogJob, kind: str) -> Plan:
    first, last = _window(random, world, job.num_steps)
    pattern = _one_of(random, world.patterns)
    fault = LogFault(
        (),
        _PHASE.get(kind, "compute"),
        1.0,
        first,
        last,
        pattern,
        every=_one_of(random, world.fault_every),
        share=_even(random, world.fault_share),
        jitter=_even(random, (0.02, 0.3)),
        seed=int(random.integers(2**31)),
    )
    if kind in _PHASE:
        return Plan(kind, replace(fault, ranks=(int(random.integers(job.num_ranks)),)))
    if kind == "job_slower":
        phase = _one_of(random, ("compute", "compute", "data", "rest", "tail"))
        return Plan(kind, replace(fault, phase=phase))
    host = int(random.integers(job.num_hosts))
    ranks = [rank for rank in range(job.num_ranks) if rank // job.ranks_per_host == host]
    phase = _one_of(random, ("compute", "data", "rest"))
    meant = tuple(ranks) if len(ranks) < job.num_ranks else ()
    fault = replace(fault, ranks=meant, phase=phase, independent=random.random() < 0.6)
    return Plan(kind, fault, host_wide=bool(meant))


def _window(random: Random, world: LogWorld, num_steps: int) -> tuple[int, int]:
    """First and last step of a fault."""
    length = min(int(_even(random, world.fault_steps)), num_steps // 2)
    if random.random() < world.from_the_first:
        return 0, num_steps - 1 if random.random() < world.to_the_end else length
    first = int(random.integers(25, num_steps - length))
    return first, num_steps - 1 if random.random() < world.to_the_end else first + length - 1


def dosed(job: LogJob, fault: LogFault, least: float) -> LogFault:
    """The fault so strong that steps it hits are `least` times as long; raises ValueError."""
    healthy_S = simulate(replace(job, faults=())).step_S
    num_hit = int(fault.hits(job.num_steps).sum())

    def longer(strength: float) -> float:
        planted = replace(fault, ms=max(strength, 1e-6) * job.step_ms)
        added = float((simulate(replace(job, faults=(planted,))).step_S - healthy_S).sum())
        return 1 + added / num_hit / float(np.median(healthy_S))

    strength = dose_reaching(longer, least)
    if strength is None:
        raise ValueError(f"no dose makes steps {least} times as long")
    return replace(fault, ms=strength * job.step_ms)


def _even(random: Random, of: Range) -> float:
    return float(random.uniform(*of))


def _log_even(random: Random, of: Range) -> float:
    return math.exp(random.uniform(math.log(of[0]), math.log(of[1])))


def _one_of(random: Random, choices: tuple[_T, ...]) -> _T:
    return choices[int(random.integers(len(choices)))]
