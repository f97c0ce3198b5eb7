"""Jobs with phase logs and labelled faults, drawn at random from the ranges of a world."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sample_traces.generate.habits import Habits
from sample_traces.generate.labelled.doses import DOSES, dose_reaching
from sample_traces.generate.labelled.drawn_habits import draw_habits
from sample_traces.generate.labelled.draws import Random, even, log_even, one_of
from sample_traces.generate.labelled.labels import Label
from sample_traces.generate.labelled.log_labels import LogOf, Plan, labels_of
from sample_traces.generate.labelled.stall_truth import StallTruth
from sample_traces.generate.labelled.step_truth import StepTruth
from sample_traces.generate.labelled.worlds import LogWorld
from sample_traces.generate.phase_log.job import OWN, LogFault, LogJob
from sample_traces.generate.phase_log.resampled import like_recorded, resampled
from sample_traces.generate.phase_log.simulate import simulate
from sample_traces.generate.phase_log.write import write_log
from sample_traces.generate.recorded_noise import Recording, load_recording

KINDS = ("late_in_data", "late_in_compute", "late_elsewhere", "host_wide", "job_slower")
"""What is planted: a rank (or two) late by a phase, all ranks of a host, the whole job."""

_PHASE = {"late_in_data": "data", "late_in_compute": "compute", "late_elsewhere": "rest"}
_TRIES = 20


@dataclass(frozen=True)
class LabelledLog:
    """A job with phase logs and what a diagnosis should find in it.

    `recording`: the healthy job whose steps it has, None: all is drawn.
    """

    job: LogJob
    labels: tuple[Label, ...]
    recording: Recording | None = None

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
        log_of = log_by(self.recording)
        healthy = log_of(replace(self.job, faults=()))
        return StepTruth(log_of(self.job).step_S, healthy.step_S)

    @property
    def delays(self) -> tuple[StallTruth]:
        """Whom habits of the healthy job delay; a recording has none."""
        log_of = log_by(self.recording)
        habits = self.job.habits if self.recording is None else Habits()
        return (StallTruth(habits, lambda has: log_of(replace(self.job, habits=has)).step_S),)

    @property
    def rank_s(self) -> float:
        """Seconds of all ranks together."""
        return float(self.steps.with_S.sum()) / 1000 * self.job.num_ranks

    @property
    def rank_steps(self) -> int:
        """Steps of all ranks together."""
        return self.job.num_steps * self.job.num_ranks

    def write(self, folder: Path) -> tuple[Path, None]:
        """One file per rank; the folder to read, and no baseline."""
        log = log_by(self.recording)(self.job)
        return write_log(self.job, log, folder / "logs"), None


def log_by(recording: Recording | None) -> LogOf:
    """What makes the log of a job."""
    return simulate if recording is None else lambda job: resampled(recording, job)


def draw_log(
    world: LogWorld, kind: str | None, dose: str, seed: int, recordings: Sequence[str] = ()
) -> LabelledLog:
    """A job with a fault of a kind (None: healthy) and dose; equal for equal arguments.

    `recordings`: files of recorded jobs, one of which is drawn and resampled.
    """
    random = np.random.default_rng(seed)
    for _ in range(_TRIES):
        job, recording = _job(random, world), None
        if recordings:
            recording = load_recording(one_of(random, tuple(recordings)))
            job = like_recorded(job, recording)
        if kind is None:
            return LabelledLog(job, (), recording)
        log_of = log_by(recording)
        with contextlib.suppress(ValueError):  # no dose reaches its aim: another job
            plans = _plans(random, world, job, kind)
            doses = [dosed(job, plan.fault, DOSES[dose], log_of) for plan in plans]
            plans = tuple(map(replace_fault, plans, doses))
            job = replace(job, faults=tuple(doses))
            return LabelledLog(job, labels_of(job, plans, log_of), recording)
    raise ValueError(f"no job of {_TRIES} can have {kind} at dose {dose}")


def replace_fault(plan: Plan, fault: LogFault) -> Plan:
    """The plan with this fault."""
    return replace(plan, fault=fault)


def _job(random: Random, world: LogWorld) -> LogJob:
    num_ranks = one_of(random, world.num_ranks)
    num_steps = int(random.integers(int(world.num_steps[0]), int(world.num_steps[1]) + 1))
    shares = {"data": even(random, world.data), "rest": even(random, world.rest)}
    shares["compute"] = 1 - sum(shares.values()) - even(random, world.tail)
    one_host = random.random() < world.one_host
    hides = _hides(random, world)
    logs = {"comm_ms": world.logs_comm, "wait_ms": world.logs_wait, "ts": world.logs_time}
    logs["world_size"] = world.logs_size
    keys = {key for key, likely in logs.items() if random.random() < likely}
    keys |= {"data_ms", "compute_ms", "step_ms"} | ({"comm_ms"} if "comm" in hides else set())
    return LogJob(
        num_ranks,
        num_steps,
        step_ms=log_even(random, world.step_ms),
        shares=tuple((name, shares[name]) for name in OWN),
        hides=tuple(hides.items()),
        keys=frozenset(keys),
        habits=draw_habits(random, world.habits, num_ranks, num_steps),
        lags="data" in hides and random.random() < world.lags,
        digits=one_of(random, world.digits),
        ranks_per_host=num_ranks if one_host else one_of(random, world.ranks_per_host),
        names_hosts=one_of(random, world.names_hosts),
        noise_seed=int(random.integers(2**31)),
    )


def _hides(random: Random, world: LogWorld) -> dict[str, float]:
    """Share of the waiting by timer."""
    names, weights = zip(*world.hides, strict=True)
    name = str(random.choice(names, p=weights))
    if name == "rest" or random.random() >= world.mixed:
        return {name: 1.0}
    part = even(random, world.mixed_share)
    return {name: 1 - part, "rest": part}


def _plans(random: Random, world: LogWorld, job: LogJob, kind: str) -> tuple[Plan, ...]:
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
    return tuple(drawn)


def _plan(random: Random, world: LogWorld, job: LogJob, kind: str) -> Plan:
    first, last = _window(random, world, job.num_steps)
    pattern = one_of(random, world.patterns)
    fault = LogFault(
        (),
        _PHASE.get(kind, "compute"),
        1.0,
        first,
        last,
        pattern,
        every=one_of(random, world.fault_every),
        share=even(random, world.fault_share),
        jitter=even(random, (0.02, 0.3)),
        seed=int(random.integers(2**31)),
    )
    if kind in _PHASE:
        return Plan(kind, replace(fault, ranks=(int(random.integers(job.num_ranks)),)))
    if kind == "job_slower":
        phase = one_of(random, ("compute", "compute", "data", "rest", "tail"))
        return Plan(kind, replace(fault, phase=phase))
    host = int(random.integers(job.num_hosts))
    ranks = [rank for rank in range(job.num_ranks) if rank // job.ranks_per_host == host]
    phase = one_of(random, ("compute", "data", "rest"))
    meant = tuple(ranks) if len(ranks) < job.num_ranks else ()
    fault = replace(fault, ranks=meant, phase=phase, independent=random.random() < 0.6)
    return Plan(kind, fault, host_wide=True)


def _window(random: Random, world: LogWorld, num_steps: int) -> tuple[int, int]:
    """First and last step of a fault."""
    length = min(int(even(random, world.fault_steps)), num_steps // 2)
    if random.random() < world.from_the_first:
        return 0, num_steps - 1 if random.random() < world.to_the_end else length
    first = int(random.integers(25, num_steps - length))
    return first, num_steps - 1 if random.random() < world.to_the_end else first + length - 1


def dosed(job: LogJob, fault: LogFault, least: float, log_of: LogOf = simulate) -> LogFault:
    """The fault so strong that steps it hits are `least` times as long; raises ValueError."""
    healthy_S = log_of(replace(job, faults=())).step_S
    num_hit = int(fault.hits(job.num_steps).sum())

    def longer(strength: float) -> float:
        planted = replace(fault, ms=max(strength, 1e-6) * job.step_ms)
        added = float((log_of(replace(job, faults=(planted,))).step_S - healthy_S).sum())
        return 1 + added / num_hit / float(np.median(healthy_S))

    strength = dose_reaching(longer, least)
    if strength is None:
        raise ValueError(f"no dose makes steps {least} times as long")
    return replace(fault, ms=strength * job.step_ms)
