"""Jobs with labelled faults in the StragglerAnalysis schema, drawn at random.

Its tensor-parallel ranks are collapsed into one worker, and it has neither CPU time nor data waits:
only faults that its operations show are planted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml

from sample_traces.generate.labelled.doses import DOSES, dose_reaching
from sample_traces.generate.labelled.labels import MIN_PAST, MIN_PEERS, Label
from sample_traces.generate.labelled.step_truth import StepTruth
from sample_traces.generate.straggler_trace import MegatronJob, step_s, straggler_trace, true_S

KINDS = (
    "slow_worker",
    "slow_stage",
    "slow_link",
    "slow_dp_network",
    "gc_pauses",
    "sequence_imbalance",
)

SIZES = (
    (1, 8, 1),
    (1, 32, 1),
    (2, 4, 1),
    (2, 8, 1),
    (2, 16, 2),
    (2, 2, 1),
    (3, 4, 1),
    (4, 1, 1),
    (4, 2, 1),
    (4, 4, 1),
    (4, 4, 2),
    (4, 8, 1),
    (4, 64, 1),
    (8, 2, 1),
    (8, 4, 2),
    (8, 8, 1),
)
"""pp, dp, vpp."""

_NUM_STEPS = 24
_UNIDENTIFIABLE = 0.08
"""Share of jobs whose fault cannot be identified from the data, of kinds that may be so."""
_TRIES = 200


_Cell = tuple[int, int]
"""Stage and dp rank."""


@dataclass(frozen=True)
class LabelledTrace:
    """A job of the StragglerAnalysis schema and what a diagnosis should find in it."""

    job: MegatronJob
    labels: tuple[Label, ...]

    @property
    def shape(self) -> str:
        """Sizes and step time in words."""
        job = self.job
        sizes = f"pp{job.pp} dp{job.dp} tp{job.tp} vpp{job.vpp}"
        return f"{sizes}, step {step_s(job).mean():.2g} s"

    @property
    def slowdown(self) -> float:
        """Mean step time / that of the same job without faults, noise and habits."""
        plain = replace(_healthy(self.job), noise=0.0, device_spread=0.0, ragged=0.0)
        return float(step_s(self.job).mean() / step_s(plain).mean())

    @property
    def true_S(self) -> float:
        """S by its definition, from what was drawn."""
        return true_S(self.job)

    @property
    def steps(self) -> StepTruth:
        """Step times with and without the faults."""
        return StepTruth(step_s(self.job), step_s(_healthy(self.job)))

    @property
    def rank_s(self) -> float:
        """Seconds of all recorded cells together."""
        return float(step_s(self.job).sum()) * self.job.pp * self.job.dp

    @property
    def rank_steps(self) -> int:
        """Steps of all recorded cells together."""
        return self.job.num_steps * self.job.pp * self.job.dp

    def write(self, folder: Path) -> tuple[Path, None]:
        """Trace and yaml of sizes; the file to read, and no baseline."""
        path = folder / "trace-job.parquet"
        pq.write_table(straggler_trace(self.job), path)
        (folder / "meta-job.yaml").write_text(yaml.safe_dump(self.job.metadata))
        return path, None


def draw_trace(kind: str | None, dose: str, seed: int) -> LabelledTrace:
    """A job with one fault of a kind (None: healthy) and dose; equal for equal arguments."""
    random = np.random.default_rng(seed)
    if kind is None:
        return LabelledTrace(_job(random), ())
    is_hidden = random.random() < _UNIDENTIFIABLE
    for tried in range(_TRIES):
        wanted = is_hidden and 2 * tried < _TRIES  # later tries: this kind has no such jobs
        job = _job(random)
        cell = _draw_cell(random, job, kind)
        if cell and bool(_why_not(job, kind)) == wanted:
            return _at_dose(job, kind, cell, DOSES[dose])
    raise ValueError(f"no job of {_TRIES} can have {kind}")


def _at_dose(job: MegatronJob, kind: str, cell: _Cell, least: float) -> LabelledTrace:
    faulty, healthy_S = slice(job.since, None), step_s(job)

    def longer(strength: float) -> float:
        faulty_S = step_s(_planted(job, kind, cell, strength))
        return float(faulty_S[faulty].mean() / healthy_S[faulty].mean())

    strength = dose_reaching(longer, least)
    if strength is None:
        raise ValueError(f"no dose of {kind} makes steps {least} times as long")
    job = _planted(job, kind, cell, strength)
    return LabelledTrace(job, (_label(job, kind, cell),))


def _job(random: np.random.Generator) -> MegatronJob:
    pp, dp, vpp = SIZES[int(random.integers(len(SIZES)))]
    late = random.random() < 0.6
    return MegatronJob(
        pp,
        dp,
        tp=int(random.choice([1, 2, 4, 8])),
        vpp=vpp,
        num_microbatches=pp * int(random.choice([1, 2])) if pp > 2 else 8,
        num_steps=_NUM_STEPS,
        seed=int(random.integers(2**31)),
        since=int(random.integers(8, 12)) if late else 0,
        device_spread=float(random.uniform(0, 0.01)),
        ragged=float(random.uniform(0, 0.02)),
    )


def _healthy(job: MegatronJob) -> MegatronJob:
    return replace(job, slow=(), slow_links=(), slow_networks=(), pause_s=0.0, spread=0.0)


def _draw_cell(random: np.random.Generator, job: MegatronJob, kind: str) -> _Cell | None:
    """Stage and dp rank, None where the job cannot have the fault."""
    stages = job.pp
    if kind in ("slow_stage", "slow_link") and job.pp == 1:
        return None
    if kind == "slow_dp_network" and job.dp == 1:
        return None
    if kind == "slow_link" and job.vpp == 1:
        stages -= 1
    return int(random.integers(stages)), int(random.integers(job.dp))


def _planted(job: MegatronJob, kind: str, cell: _Cell, strength: float) -> MegatronJob:
    """The fault this much beyond its floor: factors 1 + strength, seconds, spreads."""
    stage, dp = cell
    if kind == "slow_worker":
        return replace(job, slow=((stage, dp, 1 + strength),))
    if kind == "slow_stage":
        return replace(job, slow=tuple((stage, d, 1 + strength) for d in range(job.dp)))
    if kind == "slow_link":
        return replace(job, slow_links=((stage, dp, 1 + strength),))
    if kind == "slow_dp_network":
        return replace(job, slow_networks=((stage, 1 + strength),))
    if kind == "gc_pauses":
        return replace(job, pause_s=strength)
    return replace(job, spread=strength)


def _label(job: MegatronJob, kind: str, cell: _Cell) -> Label:
    stage, dp = cell
    ranks: tuple[int, ...] = ()
    if kind == "slow_worker":
        ranks = (_rank(job, stage, dp),)
    elif kind == "slow_link":
        ranks = tuple(sorted((_rank(job, stage, dp), _rank(job, (stage + 1) % job.pp, dp))))
    elif kind == "slow_dp_network":
        ranks = tuple(_rank(job, stage, d) for d in range(job.dp))
    stages = (stage,) if kind in ("slow_stage", "slow_dp_network") else ()
    why_not = _why_not(job, kind)
    cells = job.pp * job.dp
    return Label(kind, ranks, stages, (), job.since, job.num_steps - 1, why_not, cells)


def _rank(job: MegatronJob, stage: int, dp: int) -> int:
    """Global rank of the first tensor-parallel rank of a cell, which stands for all."""
    return (stage * job.dp + dp) * job.tp


def _why_not(job: MegatronJob, kind: str) -> str:
    """Why the fault cannot be identified from the data, empty where it can."""
    has_past = job.since >= MIN_PAST
    has_others = job.dp > MIN_PEERS or (has_past and job.dp * job.pp > MIN_PEERS)
    if kind == "slow_worker" and not has_others:
        return "fewer than three peers, and slow from the first step on"
    if kind == "slow_stage" and job.dp == 1:
        return "one cell per stage: its layers and its device look the same"
    if kind in ("slow_stage", "slow_dp_network") and job.pp <= 2 and not has_past:
        return "fewer than three stages, and slow from the first step on"
    if kind == "slow_dp_network" and job.pp == 1:
        return "one stage: its network has no other to compare with"
    if kind == "slow_link" and (job.pp - 1) * job.dp <= MIN_PEERS and not has_past:
        return "fewer than four links, and slow from the first step on"
    return ""
