"""Faults planted in a real job for a while each, and what a diagnosis made of them.

Pure: plans, and scores what was reported when. benchmarks/real_faults.py runs the jobs.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diagnosis.findings import Diagnosis
from sample_traces.jobs.faults import FINDING_KINDS

FAULTS = ("late-rank", "slow-loader", "gc", "slow-rank")
DOSES = {"loud": 1.5, "quiet": 1.15, "masked": 1.05}
"""Least step time with the fault / without."""
AIMED = 1.06
"""A dose is planned so much above its least."""

WARM_UP, OFF_STEPS, LEAST_ON, MOST_ON = 12, 9, 8, 30
ON_S = 17.0
"""An episode lasts about this long: found later than after 15 s is too late."""
NEAR_STEPS = 3
"""A finding may begin this many steps before its episode and is still of it."""
ALL_REDUCES = 16
"""Of the blocks of one rank per step: 2 layers x 2 x 4 micro-batches."""
GC_OBJECTS_PER_S = 600_000
"""Made, linked in cycles and collected, on a core that others use, too."""

GAIN = {"late-rank": 1.2, "slow-loader": 1.2, "gc": 1.0, "slow-rank": 6.0}
"""Own time of a fault for the step time that it is to cost, before a job has measured it: the
other ranks compute meanwhile, and a rank computes for a part of each step only."""

MOST_CORRECTED = 3.0


@dataclass
class Episode:
    """A fault that is on from step `first` to `last`. `rank`: None for one after the other."""

    fault: str
    dose: str
    rank: int | None
    first: int
    last: int
    own: float = 0.0
    """planned: how much of a step of the job the fault takes"""
    text: str = ""
    """as --fault takes it"""
    mark_ns: int = 0
    alert_ns: int | None = None
    onset: int | None = None
    also: set[str] = field(default_factory=set)
    """what else was named in its steps"""
    step_ratio: float = math.nan
    step_s: float = math.nan

    @property
    def kind(self) -> str:
        """What a diagnosis should call it."""
        return FINDING_KINDS[self.fault]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Whom it should name."""
        return () if self.rank is None else (self.rank,)

    @property
    def delay_s(self) -> float | None:
        """From the mark to the alert; None: it was not found."""
        return None if self.alert_ns is None else (self.alert_ns - self.mark_ns) / 1e9

    @property
    def delay_steps(self) -> float | None:
        """The same in steps of the episode."""
        return None if self.delay_s is None else self.delay_s / self.step_s

    def meets(self, steps: Sequence[int]) -> bool:
        """Whether a finding over these steps (first, last) is of this episode."""
        return self.first - NEAR_STEPS <= steps[0] <= self.last and steps[1] >= self.first


@dataclass
class Job:
    """One job: what was planted, and what was reported when."""

    episodes: list[Episode]
    load: float = 0.0
    step_ms: float = math.nan
    """without a fault"""
    num_steps: int = 0
    hours: float = 0.0
    false: list[str] = field(default_factory=list)
    reported: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    """(Unix ns, findings as `scored_parts` gives them)"""

    @property
    def quiet_hours(self) -> float:
        """Hours without a fault."""
        on = sum((e.last - e.first + 1) * e.step_ratio for e in self.episodes if e.step_ratio > 0)
        return max(self.hours - on * self.step_ms / 3.6e6, 0.0)


def planned(
    fault: str, doses: Sequence[str], step_ms: float, gain: float, seed: int
) -> list[Episode]:
    """Episodes of one job, in order: one rank of each pipeline stage takes turns."""
    chosen = random.Random(seed)
    ranks = [chosen.randrange(4), 4 + chosen.randrange(4)]
    begin, found = WARM_UP, []
    for number, dose in enumerate(doses):
        step_s = step_ms / 1e3 * DOSES[dose]
        length = min(max(math.ceil(ON_S / step_s), LEAST_ON), MOST_ON)
        rank = None if fault == "gc" and chosen.random() < 0.5 else ranks[number % 2]
        own = (DOSES[dose] * AIMED - 1) * gain
        episode = Episode(fault, dose, rank, begin, begin + length - 1, own)
        episode.text = _written(episode, own * step_ms)
        found.append(episode)
        begin += length + OFF_STEPS
    return found


def _written(episode: Episode, own_ms: float) -> str:
    amount = {
        "late-rank": f"ms={own_ms / ALL_REDUCES:.2f}",
        "slow-loader": f"ms={own_ms:.1f}",
        "gc": f"objects={max(int(own_ms / 1e3 * GC_OBJECTS_PER_S), 1000)}",
        "slow-rank": f"x={1 + episode.own:.3f}",
    }[episode.fault]
    who = "" if episode.rank is None else f"={episode.rank}"
    return f"{episode.fault}{who},{amount},from={episode.first},to={episode.last}"


def gain_of(fault: str, episodes: Sequence[Episode]) -> float:
    """Own time of a fault for the step time that it is to cost, by what its episodes did: the line
    through 0 with the least squares, because single ones are noisy on a busy machine."""
    measured = [e for e in episodes if e.fault == fault and math.isfinite(e.step_ratio)]
    cost = sum((e.step_ratio - 1) * e.own for e in measured)
    least, most = GAIN[fault] / MOST_CORRECTED, GAIN[fault] * MOST_CORRECTED
    if not measured:
        return GAIN[fault]
    own = sum(e.own**2 for e in measured)
    return min(max(own / cost, least), most) if cost > 0 else most


def scored_parts(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """The parts of the findings that the score depends on."""
    return [
        {
            "kind": finding.kind,
            "ranks": tuple(place.rank for place in finding.culprits),
            "steps": (finding.first_step, finding.last_step),
            "stages": finding.stages,
        }
        for finding in diagnosis.findings
    ]


def score(job: Job, step_ms: Mapping[int, float], mark_ns: Mapping[int, int]) -> None:
    """Fill in what came of the episodes. `step_ms`: by step; `mark_ns`: by first step."""
    hit = {step for e in job.episodes for step in range(e.first, e.last + 2)}
    job.num_steps, job.hours = len(step_ms), sum(step_ms.values()) / 3.6e6
    job.step_ms = statistics.median(ms for step, ms in step_ms.items() if step not in hit)
    for episode in job.episodes:
        episode.mark_ns = mark_ns[episode.first]
        near = range(episode.first - 2 * OFF_STEPS, episode.last + 2 * OFF_STEPS)
        nearby = [step_ms[s] for s in near if s not in hit and s in step_ms]
        own = [step_ms[s] for s in range(episode.first, episode.last + 1) if s in step_ms]
        if own and nearby:
            episode.step_s = statistics.median(own) / 1e3
            episode.step_ratio = statistics.median(own) / statistics.median(nearby)
    for at_ns, findings in job.reported:
        for finding in findings:
            _judge(job, at_ns, finding)


def _judge(job: Job, at_ns: int, finding: Mapping[str, Any]) -> None:
    met = [episode for episode in job.episodes if episode.meets(finding["steps"])]
    for episode in met:
        if (finding["kind"], finding["ranks"]) == (episode.kind, episode.ranks):
            if episode.alert_ns is None:
                episode.alert_ns, episode.onset = at_ns, finding["steps"][0]
            return
    what = f"{finding['kind']} {list(finding['ranks']) or list(finding['stages'])}"
    for episode in met:
        episode.also.add(what)
    where = f"{what} from step {finding['steps'][0]}"
    if not met and where not in job.false:
        job.false.append(where)


def wilson(hits: int, num: int) -> tuple[float, float]:
    """Interval of 95 % of a share (Wilson, 1927)."""
    z, p = 1.96, hits / num
    middle = (p + z * z / 2 / num) / (1 + z * z / num)
    half = z / (1 + z * z / num) * math.sqrt(p * (1 - p) / num + z * z / 4 / num**2)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def row_of(fault: str, dose: str, episodes: Sequence[Episode]) -> dict[str, Any]:
    """One line of the table, of at least one episode."""
    delays = [e.delay_s for e in episodes if e.delay_s is not None]
    steps = [e.delay_steps for e in episodes if e.delay_steps is not None]
    p50, p95 = np.percentile(delays, [50, 95]).round(1).tolist() if delays else (None, None)
    return {
        "fault": fault,
        "dose": dose,
        "episodes": len(episodes),
        "right": len(delays),
        "right_95": [round(share, 3) for share in wilson(len(delays), len(episodes))],
        "in_15_s": sum(delay <= 15 for delay in delays),
        "delay_p50_s": p50,
        "delay_p95_s": p95,
        "delay_steps": round(statistics.median(steps), 1) if steps else None,
        "onset_steps": max(
            (abs(e.onset - e.first) for e in episodes if e.onset is not None), default=None
        ),
        "step": round(statistics.median(e.step_ratio for e in episodes), 3),
        "wrong": sum(bool(e.also) for e in episodes),
        "also": sorted({what for e in episodes for what in e.also}),
    }


def rows_of(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """Lines of all faults and doses there are."""
    rows = []
    for fault in FAULTS:
        for dose in DOSES:
            chosen = [e for e in episodes if (e.fault, e.dose) == (fault, dose)]
            if chosen:
                rows.append(row_of(fault, dose, chosen))
    return rows
