"""Which ranks a job waited for before its first step, in which phase, and for how long.

A rank is compared with the other ranks, phase by phase. Phases in which a rank waits for others
(rendezvous, process groups, collectives) accuse nobody, but for code of the job's own that runs
inside of them: who is late there was slow before. Where half of the ranks or more are slow, the
others are the exception, and nobody is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from diagnosis.goodput.startup import FIRST_STEP, INSIDE, WARM_UP, RankStart

WAITING = ("rendezvous", "groups", "communication")
OF_JOB = ("groups",)
"""Phases that take long on all ranks together, with what they do in turn."""

NOISE_MADS = 3.0
LEAST_S = 2.0
"""Ten times what the hooks can tell apart (a look each 0.2 s): less is not compared."""

LEAST_SHARE = 0.1
"""Of the start-up of the others: less would be seen by nobody who waits for the job."""

LEAST_STEPS = 4
"""Steps that the job could have made meanwhile: what happens once may cost a few."""

LEAST_BEFORE_S = 5.0
"""Instead, before it has made the steps that tell how long one takes."""


@dataclass(frozen=True)
class Slow:
    """`ranks` spent `seconds` (the median of them) in `phase`, the others `usual_s`; the first
    step would have ended up to `cost_s` earlier. `what`: the longest of what they did there.
    """

    phase: str
    ranks: tuple[int, ...]
    seconds: float
    usual_s: float
    cost_s: float
    what: str


def slow_phases(starts: Sequence[RankStart]) -> list[Slow]:
    """Phases that single ranks are slow in, the costliest first."""
    recorded = [start for start in starts if start.is_recorded]
    phases = {stretch.phase for start in recorded for stretch in start.stretches}
    found = [_slow_in(phase, recorded) for phase in sorted(phases)]
    return sorted((slow for slow in found if slow is not None), key=lambda slow: -slow.cost_s)


def own_s(start: RankStart, phase: str) -> float:
    """Seconds that the rank itself spent in a phase, without waiting for others there."""
    return sum(
        stretch.seconds
        for stretch in start.stretches
        if stretch.phase == phase and (phase not in WAITING or INSIDE in stretch.what)
    )


def waited_s(start: RankStart) -> float:
    """Seconds that the rank waited for others at most, those in its first step included."""
    waits = sum(
        stretch.seconds
        for stretch in start.stretches
        if stretch.phase in WAITING and INSIDE not in stretch.what
    )
    step_s = start.parts.get(WARM_UP, 0.0)
    return waits + (step_s if start.usual_step_s else start.parts.get(FIRST_STEP, 0.0))


def _slow_in(phase: str, starts: Sequence[RankStart]) -> Slow | None:
    if len(starts) < 2:
        return None
    seconds = {start.rank: own_s(start, phase) for start in starts}
    slow = _outliers(seconds, median(start.seconds for start in starts))
    if not slow or (2 * len(slow) >= len(starts) and len(starts) > 2):
        return None
    others = [start for start in starts if start.rank not in slow]
    usual_s = median(seconds[start.rank] for start in others)
    took_s = median(seconds[rank] for rank in slow)
    cost_s = min(max(seconds[rank] for rank in slow) - usual_s, median(map(waited_s, others)))
    if cost_s < _least_s(starts):
        return None
    return Slow(phase, slow, took_s, usual_s, cost_s, _longest(phase, starts, slow))


def _least_s(starts: Sequence[RankStart]) -> float:
    """What ranks have to cost the others to be named."""
    usual = [start.usual_step_s for start in starts if start.usual_step_s is not None]
    return max(LEAST_S, LEAST_STEPS * median(usual)) if usual else LEAST_BEFORE_S


def _outliers(seconds: dict[int, float], start_s: float) -> tuple[int, ...]:
    """Ranks whose time is far above that of all, and is much of a start-up."""
    usual_s = median(seconds.values()) if len(seconds) > 2 else min(seconds.values())
    spread_s = median(abs(value - usual_s) for value in seconds.values())
    noise_s = NOISE_MADS * spread_s if len(seconds) > 2 else 0.0
    limit_s = usual_s + max(LEAST_S, noise_s, LEAST_SHARE * start_s)
    return tuple(rank for rank, value in seconds.items() if value > limit_s)


def _longest(phase: str, starts: Sequence[RankStart], ranks: tuple[int, ...]) -> str:
    """What the ranks did longest in a phase."""
    times: dict[str, float] = defaultdict(float)
    for start in starts:
        for stretch in start.stretches:
            if start.rank in ranks and stretch.phase == phase:
                times[stretch.what] += stretch.seconds
    return max(times, key=lambda what: times[what])


@dataclass(frozen=True)
class ManyGroups:
    """Making the process groups took `seconds` even on the rank that waited least for others."""

    seconds: float
    num_groups: int
    start_s: float


def many_groups(starts: Sequence[RankStart]) -> ManyGroups | None:
    """Whether making process groups was much of the start-up of every rank."""
    recorded = [start for start in starts if start.is_recorded]
    if not recorded:
        return None
    seconds = min(start.parts.get("groups", 0.0) for start in recorded)
    start_s = median(start.seconds for start in recorded)
    if seconds < max(LEAST_S, LEAST_SHARE * start_s):
        return None
    return ManyGroups(seconds, recorded[0].job_groups, start_s)
