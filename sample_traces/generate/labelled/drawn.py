"""Jobs with labelled faults, drawn at random: sizes, habits of the job, where, when, how strong."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sample_traces.generate.faults import (
    KINDS,
    NOW_AND_THEN,
    OF_THE_MODEL,
    PERIODIC,
    SyntheticFault,
)
from sample_traces.generate.habits import Float, Habits
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.doses import DOSES, dosed, step_ns
from sample_traces.generate.labelled.drawn_habits import draw_habits
from sample_traces.generate.labelled.draws import one_of
from sample_traces.generate.labelled.hidden import is_hidden, of_the_job
from sample_traces.generate.labelled.labels import NEEDS_BASELINE, Label, label_of
from sample_traces.generate.labelled.noise_truth import NoiseTruth
from sample_traces.generate.labelled.shapes import SHAPES, Shape, fits, small_more_often
from sample_traces.generate.labelled.stall_truth import StallTruth
from sample_traces.generate.labelled.step_truth import StepTruth
from sample_traces.generate.labelled.visible import lost_in_noise
from sample_traces.generate.labelled.worlds import NATIVE_WORLDS, NativeWorld
from sample_traces.generate.simulation.ideal import true_S
from sample_traces.generate.tables.write import generate

NATIVE = NATIVE_WORLDS["native"]

UNIDENTIFIABLE = 0.08
"""Share of jobs whose fault cannot be identified from the data, of kinds that may be so."""

TWICE, WITH_ANOTHER = 0.2, 0.15
"""Shares of jobs in which the fault comes back, and in which another rank is slow too."""

WITH_BASELINE = 0.6
"""Share of jobs equally slow everywhere that can be compared; most others begin healthy."""

RESTARTED, RESUMED_AT = 0.1, 8
"""Share of jobs that were restarted, and at which step."""

FROM_THE_FIRST = 0.25
"""Share of faults that act from the first step on."""

_NUM_STEPS = 40
_LATE_STEPS = (8, 15)
_TRIES = 200


@dataclass(frozen=True)
class LabelledJob:
    """A job, what a diagnosis should find in it, a healthy run of the same job where there is one,
    and the attempt before where it was restarted.
    """

    job: SyntheticJob
    labels: tuple[Label, ...]
    baseline: SyntheticJob | None = None
    before: SyntheticJob | None = None

    @property
    def shape(self) -> str:
        """Sizes and step time in words."""
        job = self.job
        return f"pp{job.pp} dp{job.dp} tp{job.tp}, step {step_ns(job).mean() / 1e9:.2g} s"

    @property
    def slowdown(self) -> float:
        """Mean step time / that of the same job without faults, noise and habits."""
        plain = replace(self.job, faults=(), noise=0.0, device_spread=0.0, ragged=0.0, save_ms=0.0)
        plain = replace(plain, habits=None, recorded="")
        healthy_S = step_ns(plain)[: self.job.steps_completed]
        return float(step_ns(self.job).mean() / healthy_S.mean())

    @property
    def true_S(self) -> float:
        """S by its definition, from what was drawn."""
        return true_S(self.job)

    @property
    def steps(self) -> StepTruth:
        """Step times with and without the faults, as long as the job lives."""
        with_S = step_ns(self.job).astype(np.float64)
        without_S = step_ns(replace(self.job, faults=())).astype(np.float64)
        return StepTruth(with_S, without_S[: with_S.size], self.job.resumed_at)

    @property
    def delays(self) -> tuple[NoiseTruth, StallTruth]:
        """Whom the recorded noise and habits of the healthy job delay."""
        job, habits = self.job, self.job.habits or Habits()
        stalls = StallTruth(habits, lambda has: _step_times(job, has), job.resumed_at)
        return NoiseTruth(job), stalls

    @property
    def rank_s(self) -> float:
        """Seconds of all ranks together."""
        return float(step_ns(self.job).sum()) / 1e9 * self.job.num_ranks

    @property
    def rank_steps(self) -> int:
        """Steps of all ranks together."""
        return self.job.steps_completed * self.job.num_ranks

    def write(self, folder: Path) -> tuple[Path, Path | None]:
        """Write the run, and the healthy one where there is one; their folders."""
        if self.before is not None:
            generate(self.before, folder / "run")
        generate(self.job, folder / "run")
        if self.baseline is None:
            return folder / "run", None
        generate(self.baseline, folder / "baseline")
        return folder / "run", folder / "baseline"


def _step_times(job: SyntheticJob, habits: Habits) -> Float:
    return step_ns(replace(job, habits=habits)).astype(np.float64)


def draw_healthy(
    seed: int, world: NativeWorld = NATIVE, recordings: Sequence[str] = ()
) -> LabelledJob:
    """A job without faults, its noise and habits included; long steps, as of big models."""
    random = np.random.default_rng(seed)
    shapes = _shapes(world)
    shape = shapes[int(random.integers(len(shapes)))]
    job = replace(_job(random, shape, quickest=60.0, slowest=200.0), statistics=1)
    job = _lifelike(random, job, world, recordings)
    return LabelledJob(job, (), before=_before(job))


def draw_labelled(
    kind: str,
    dose: str,
    seed: int,
    world: NativeWorld = NATIVE,
    recordings: Sequence[str] = (),
) -> LabelledJob:
    """A job with faults of one kind and dose; equal for equal arguments.

    `recordings`: files of recorded noise, one of which is drawn.
    """
    random = np.random.default_rng(seed)
    is_hidden = random.random() < UNIDENTIFIABLE
    with_baseline = kind in NEEDS_BASELINE and random.random() < WITH_BASELINE
    for tried in range(_TRIES):
        wanted = is_hidden and 2 * tried < _TRIES  # later tries: this kind has no such jobs
        shapes = [shape for shape in _shapes(world) if fits(kind, shape)]
        job = _lifelike(random, _job(random, small_more_often(random, shapes)), world, recordings)
        faults = _faults(random, job, kind, with_baseline)
        if any(label_of(job, f, with_baseline).why_not for f in faults) == wanted:
            with contextlib.suppress(ValueError):  # no dose reaches its aim: another job
                faults = _at_dose(job, faults, dose)
                break
    else:
        raise ValueError(f"no job of {_TRIES} can have {kind} at dose {dose}")
    job = replace(job, faults=faults)
    labels = tuple(_label(job, fault, with_baseline) for fault in faults)
    healthy = replace(job, faults=(), seed=job.seed + 1, attempt=0) if with_baseline else None
    return LabelledJob(job, labels, healthy, _before(job))


def _shapes(world: NativeWorld) -> list[Shape]:
    return [shape for shape in SHAPES if shape[2] <= world.most_tp]


def _lifelike(
    random: np.random.Generator, job: SyntheticJob, world: NativeWorld, recordings: Sequence[str]
) -> SyntheticJob:
    """The job with what the world adds."""
    if recordings:
        job = replace(job, recorded=one_of(random, tuple(recordings)))
    if world.habits is not None:
        habits = draw_habits(random, world.habits, job.num_ranks, job.num_steps)
        job = replace(job, habits=habits)
    return replace(job, hides=one_of(random, world.hides)) if any(world.hides) else job


def _label(job: SyntheticJob, fault: SyntheticFault, with_baseline: bool) -> Label:
    label = label_of(job, fault, with_baseline)
    if not label.why_not and is_hidden(job, fault):
        return of_the_job(job, fault, label)
    if label.why_not or (job.habits is None and not job.recorded):
        return label
    return replace(label, why_not=lost_in_noise(job, fault))


def _before(job: SyntheticJob) -> SyntheticJob | None:
    """The healthy attempt that a restarted job had before: some of its steps are done again."""
    if job.attempt == 0:
        return None
    return replace(job, faults=(), attempt=0, resumed_at=0, num_steps=RESUMED_AT + 4)


def _at_dose(
    job: SyntheticJob, faults: tuple[SyntheticFault, ...], dose: str
) -> tuple[SyntheticFault, ...]:
    """Each dosed by itself; one that comes back has the dose of its first time."""
    drawn: list[SyntheticFault] = []
    for fault in faults:
        same = [f.dose for f in drawn if (f.kind, f.where) == (fault.kind, fault.where)]
        if not KINDS[fault.kind].dose or fault.kind in _DOSE_IS_NO_TIME:
            drawn.append(fault)
        elif same:
            drawn.append(replace(fault, dose=same[0]))
        else:
            drawn.append(dosed(job, fault, DOSES[dose]))
    return tuple(drawn)


_DOSE_IS_NO_TIME = ("clock_unaligned",)
_ONCE = ("clock_unaligned", "dead_rank", *NEEDS_BASELINE, *PERIODIC, *NOW_AND_THEN, *OF_THE_MODEL)
"""What does not come back within a job."""


def _job(
    random: np.random.Generator,
    shape: Shape,
    quickest: float = 1.0,
    slowest: float = 50.0,
) -> SyntheticJob:
    pp, dp, tp = shape
    pace = math.exp(random.uniform(math.log(quickest), math.log(slowest)))
    return SyntheticJob(
        pp * dp * tp,
        pp,
        tp,
        _NUM_STEPS,
        num_microbatches=int(max(pp, random.choice([4, 4, 8]))),
        seed=int(random.integers(2**31)),
        pace=round(pace, 2),
        ops=bool(random.random() < 0.3),
        save_ms=float(random.choice([0.0, 20.0])),
        device_spread=round(random.uniform(0, 0.01), 4),
        ragged=round(random.uniform(0, 0.02), 4),
    )


def _attempt(random: np.random.Generator) -> dict[str, int]:
    is_restarted = random.random() < RESTARTED
    return {"attempt": 1, "resumed_at": RESUMED_AT} if is_restarted else {}


def _faults(
    random: np.random.Generator, job: SyntheticJob, kind: str, with_baseline: bool
) -> tuple[SyntheticFault, ...]:
    """Where and when; the dose comes later."""
    where = _where(random, job, kind)
    if kind in _ONCE:
        onset = 0 if with_baseline else _onset(random, kind)
        return (SyntheticFault(kind, where, KINDS[kind].default, onset),)
    if random.random() < TWICE:
        spans = ((8, 18), (26, 36))
        return tuple(SyntheticFault(kind, where, KINDS[kind].default, *span) for span in spans)
    ends = None if random.random() < 0.75 else _NUM_STEPS - 1 - int(random.integers(5, 9))
    first = SyntheticFault(kind, where, KINDS[kind].default, _onset(random, kind), ends)
    if random.random() >= WITH_ANOTHER:
        return (first,)
    rank = int(random.integers(job.num_ranks))
    if kind in ("slow_worker", "dead_rank") and rank == where:
        return (first,)
    late = _LATE_STEPS[0] + int(random.integers(8))
    return first, SyntheticFault("slow_worker", rank, KINDS["slow_worker"].default, late)


def _onset(random: np.random.Generator, kind: str) -> int:
    """From the first step on, or later."""
    if kind == "dead_rank":
        return int(random.integers(_LATE_STEPS[0], 30))
    if kind in ("clock_unaligned", *PERIODIC) or random.random() < FROM_THE_FIRST:
        return 0
    return int(random.integers(*_LATE_STEPS))


def _where(random: np.random.Generator, job: SyntheticJob, kind: str) -> int | None:
    target = KINDS[kind].target
    room = {"rank": job.num_ranks, "stage": job.pp, "host": job.num_hosts}.get(target)
    if room is None:
        return None
    if kind in ("slow_link", "link_flap"):
        room -= job.dp * job.tp
    return int(random.integers(room))
