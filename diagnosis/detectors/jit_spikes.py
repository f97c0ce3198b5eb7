"""jit_spikes: now and then a step is far longer than all others, on all ranks or always on the
same one: something compiles, or autotunes, for a shape it has not seen yet.

A spike is a step that is longer than the running median of the steps around it, because some rank
computes (or stands still in host code) longer than it does in the steps around; what the stages of
a pipeline do longer adds up, where each does it before it hands over. What most ranks of the job
do longer is asked first: noise of single ranks hides nothing that all do. What ranks compute is
asked last, if it holds no waiting (diagnosis/statistics/spike_measures.py). Waiting for data,
garbage collections, checkpoints and retries of the allocator have kinds of their own and do not
count.

Spikes are a finding where they are rare, and stand apart from all other steps: the least of them is
twice as much longer as the longest other step, so that the tail of a noisy job makes none. Where
most ranks have them, other steps count by what most ranks do, as one rank's pause is no spike.
Those of all ranks that come irregularly and cost little are set aside: there is nobody to look at.
So are those of a job whose ranks wait in their timers, where a pause of any rank makes all of them
longer, unless they come regularly or three steps take a quarter longer.

Source: rare steps lift p99 and leave the median as it was; recompilation as a cause
of fail-slows: Flare/XPUTimer. Assumes: the first three steps compile and tune in any job; they make
no spike by themselves, nor do those that follow as long as each is shorter than the one before, and
belong to those that come later where they are as long and one period before the first. Known false
positives: rare work on purpose without a kind of its own (evaluation, logging) looks the same, and
is named among the alternatives; a machine that stops all its processes at once. Blind
spots: spikes on another rank each time, which any busy host makes (set aside), unless one rank has
four similar ones in a row (diagnosis/statistics/spikes_in_a_row.py); a single one. Cost: one pass
over the cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from diagnosis.detectors.allocator_stalls import retried_steps
from diagnosis.findings import MEASURED, Evidence, Finding, Verdict
from diagnosis.statistics.episodes import Episode
from diagnosis.statistics.hidden_waits import BORDER
from diagnosis.statistics.late_ranks import STEADY_SHARE
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import PhaseTimes, middle, phase_times
from diagnosis.statistics.rank_tables import Bools, Floats, Ints
from diagnosis.statistics.running_median import running_medians
from diagnosis.statistics.spike_measures import EXPLAINED, MIN_SPIKE, Measure, spike_measures
from diagnosis.statistics.spikes_in_a_row import FEWEST_IN_A_ROW, SIMILAR, of_most, spikes_in_a_row
from diagnosis.statistics.step_levels import SHORT_RISE
from diagnosis.statistics.units import in_ms, named_ranks

NAME = "jit_spikes"
KINDS = ("jit_spikes",)
QUESTIONS = ("allocator_retries", "rank_phases", "rank_places")

APART = 2.0
"""The least spike is at least this many times the greatest excess of the other steps."""

FEWEST, FEWEST_SIMILAR = 3, 2
"""Three spikes; two where the longer is at most SIMILAR times the other: causes repeat, and chance
does not. Long steps side by side are one: they may be the begin of something that lasts."""

WARM_UP_STEPS = 3
"""At least; a job warms up as long as each long step is shorter than the one before."""

LEAST_COST = 0.01
"""Of all time: what rare steps of all ranks without a period must cost to be a finding."""

LEAST_COST_IN_A_ROW = 0.05
"""Of the time from the first to the last of what one rank does several times in a row: ranks of
busy hosts stall for a while now and then."""

SURE_SPIKE = 0.2
"""Of regular steps that take a quarter longer it is sure that they are rare long ones; a fifth of
their own time."""


@dataclass(frozen=True)
class _Spikes:
    """Columns of the long steps. N long steps, R ranks, S steps."""

    columns: Ints
    excess_RN: Floats  # ms of each rank beyond its own median of the steps around
    waits_RN: Floats  # the same of its communication
    longer_S: Floats  # ms of the job's step beyond the running median
    of_all: bool  # three in four ranks have them
    begins: int  # column of the first step after the warm-up
    others: str  # what is compared in the other steps
    others_ms: float  # by which the longest of them stands apart


@dataclass(frozen=True)
class _Job:
    """Steps of the job, and what is compared to find long ones. R ranks, S steps."""

    times: PhaseTimes
    longer_S: Floats  # ms of the job's step beyond the running median
    measures: list[Measure]

    @cached_property
    def waits_RS(self) -> Floats:
        """Communication beyond its running median, ms."""
        beyond_RS: Floats = self.times.comm_RS - running_medians(self.times.comm_RS)
        return beyond_RS


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    longer_S = times.window_S - running_medians(times.window_S)
    retried_RS = retried_steps(tables["allocator_retries"], times)
    job = _Job(times, longer_S, spike_measures(times, longer_S, retried_RS))
    of_run = _of_run(job, attempt)
    named = [{place.rank for place in finding.culprits} for finding in of_run.findings]
    more = tuple(
        _finding(times, part, rows, attempt)
        for part, rows in _in_a_row(job)
        if not any(_includes(ranks, times.ranks.rank_R[list(rows)].tolist()) for ranks in named)
    )
    return Verdict(NAME, (*of_run.findings, *more)) if more else of_run


def _includes(named: set[int], ranks: list[int]) -> bool:
    """Whether a finding that names some ranks names these; no rank stands for all of them."""
    return named.issuperset(ranks) if ranks else not named


def _of_run(job: _Job, attempt: int) -> Verdict:
    """Judge the long steps of the run as one group, with one cause."""
    times = job.times
    found = (_standing_apart(job, by) for by in job.measures)
    spikes = next((spikes for spikes in found if spikes is not None), None)
    if spikes is None:
        checked = (
            "No three rare long steps, nor two alike (compute longer than in the steps around "
            f"them, by {100 * MIN_SPIKE:.0f} % of a step or more)."
        )
        few = 2 * times.ranks.rank_R.size < times.ranks.world_size
        return Verdict(NAME, checked=checked, of_data=few or times.waits_hidden)  # judges no rank
    rows = () if spikes.of_all else _at_fault(spikes)
    of_one = () if rows else _computed_by_one(job, spikes)
    if of_one:
        spikes, rows = of_one
    if rows is None:
        spread = (
            f"{spikes.columns.size} steps ({_listed(times.step_S[spikes.columns])}) are far longer "
            "than the others, because of another rank each time: that points to no single cause."
        )
        return Verdict(NAME, checked="No rare long steps have one cause.", set_aside=(spread,))
    if not rows and (why := _not_worth_telling(times, spikes)):
        checked = "No rare long steps that come regularly or cost much."
        return Verdict(NAME, checked=checked, set_aside=(why,))
    return Verdict(NAME, (_finding(times, spikes, rows, attempt),))


def _standing_apart(job: _Job, by: Measure) -> _Spikes | None:
    """Those of the long steps that ranks explain and that stand apart from the others."""
    times = job.times
    apart_S, begins = by.apart_S, _warm_up(times.window_S, by.long)
    others = np.setdiff1d(np.arange(begins, times.step_S.size), by.long)
    long = by.long[(by.long < WARM_UP_STEPS) | (by.long >= begins)]
    long = long[_apart(by.along_S, long, others, by.least)]
    late = long[long >= begins]
    if not late.size:
        return None
    spike_N = apart_S[late]
    enough = FEWEST_SIMILAR if spike_N.max() <= SIMILAR * spike_N.min() else FEWEST
    occasions = 1 + int((np.diff(late) > 1).sum())
    others_S = np.delete(apart_S, np.union1d(long, np.arange(begins)))
    if occasions < enough or spike_N.min() < APART * np.nanmax(others_S, initial=0.0):
        return None
    as_long_N = apart_S[long] <= SIMILAR * spike_N.max()
    in_rhythm_N = as_long_N & _in_rhythm(times.step_S[long], times.step_S[late])
    long = _without_lone_first(long[(long >= begins) | in_rhythm_N])
    others_ms = float(np.nanmax(others_S, initial=0.0))
    return _those(job, by, long, begins, others_ms)


def _without_lone_first(long: Ints) -> Ints:
    """Without first ones after which nothing came for longer than all others took together, where
    FEWEST are left: what they have in common began later.
    """
    while long.size > FEWEST and long[1] - long[0] > long[-1] - long[1] + 1:
        long = long[1:]
    return long


def _in_rhythm(steps: Ints, late: Ints) -> Bools:
    """Which steps come one period before the first of the late ones; none without a period."""
    period = period_of(late)
    if period is None:
        return np.zeros(steps.size, dtype=np.bool_)
    fits_N: Bools = np.abs(late[0] - steps - period) <= _JITTER * period
    return fits_N


def _warm_up(window_S: Floats, long: Ints) -> int:
    """Steps in which the job warms up: those that are long, each shorter than the one before."""
    begins = WARM_UP_STEPS
    while begins in long and window_S[begins] < window_S[begins - 1]:
        begins += 1
    return begins


def _apart(along_S: Floats, long: Ints, others: Ints, least: float) -> Bools:
    """Which of the long steps ranks explain, by more than what they do in the other steps."""
    apart_N: Bools = along_S[long] >= max(least, APART * float(along_S[others].max(initial=0.0)))
    return apart_N


def _at_fault(spikes: _Spikes) -> tuple[int, ...] | None:
    """Rows of the ranks that spike nearly every time: none where most do; None where nobody.

    A rank that also communicates longer then has waited: part of that lies in its compute.
    """
    often_R = _is_long(spikes).mean(axis=1) >= STEADY_SHARE
    if often_R.mean() > 1 / 2:
        return ()
    if of_most(spikes.excess_RN).mean() > 1 - STEADY_SHARE:
        return None
    often_R = _makes_long(spikes).mean(axis=1) >= STEADY_SHARE
    return tuple(np.flatnonzero(often_R).tolist()) or None


def _is_long(spikes: _Spikes) -> Bools:
    """Who is longer in each of the steps by half of what the longest one is, or more: (R, N)."""
    is_long_RN: Bools = spikes.excess_RN >= spikes.excess_RN.max(axis=0) / 2
    return is_long_RN


def _makes_long(spikes: _Spikes) -> Bools:
    """Who of them has not waited for another one: (R, N)."""
    most_N = spikes.excess_RN.max(axis=0)
    has_waited_RN = np.nan_to_num(spikes.waits_RN) >= BORDER * most_N
    makes_long_RN: Bools = _is_long(spikes) & ~has_waited_RN
    return makes_long_RN


def _computed_by_one(
    job: _Job, spikes: _Spikes
) -> tuple[_Spikes, tuple[int, ...] | None] | tuple[()]:
    """The same steps by what ranks compute, and rows of the ranks at fault, if in most of them a
    single rank computes longer: the others wait for it in their timers. Empty of others.
    """
    for by in (by for by in job.measures if by.of_compute):
        own = _those(job, by, spikes.columns, spikes.begins, spikes.others_ms)
        is_explained_N = by.along_S[own.columns] >= EXPLAINED * job.longer_S[own.columns]
        if (is_explained_N & ~of_most(own.excess_RN)).mean() >= STEADY_SHARE:
            return own, _at_fault(own)
    return ()


def _in_a_row(job: _Job) -> Iterator[tuple[_Spikes, tuple[int, ...]]]:
    """Long steps that one rank makes several times in a row, and its row, by what ranks compute."""
    for by in (by for by in job.measures if by.of_compute):
        long = by.long[by.long >= WARM_UP_STEPS]
        if long.size < FEWEST_IN_A_ROW:
            continue
        not_others = np.union1d(by.long, np.arange(WARM_UP_STEPS))
        others_ms = float(np.delete(by.along_S, not_others).max(initial=0.0))
        spikes = _those(job, by, long, WARM_UP_STEPS, others_ms)
        for rows, part in spikes_in_a_row(long, spikes.excess_RN, _makes_long(spikes)):
            own = _those(job, by, long[part], WARM_UP_STEPS, others_ms)
            if not rows:
                is_told = not _not_worth_telling(job.times, own)
            else:
                is_told = _share(job.times, own) >= LEAST_COST_IN_A_ROW
            if is_told:
                yield own, rows


def _share(times: PhaseTimes, spikes: _Spikes) -> float:
    """Of the time from the first to the last of them, what they are longer by."""
    span = slice(spikes.columns[0], spikes.columns[-1] + 1)
    return float(np.sum(spikes.longer_S[spikes.columns]) / np.nansum(times.window_S[span]))


def _those(job: _Job, by: Measure, long: Ints, begins: int, others_ms: float) -> _Spikes:
    """What the measure and the waiting of the job say of these columns."""
    return _Spikes(
        columns=long,
        excess_RN=by.excess_RS[:, long],
        waits_RN=job.waits_RS[:, long],
        longer_S=job.longer_S,
        of_all=by.of_all,
        begins=begins,
        others=by.others,
        others_ms=others_ms,
    )


def _not_worth_telling(times: PhaseTimes, spikes: _Spikes) -> str:
    """A sentence on irregular long steps of all ranks that cost little, or that one rank may have
    made so long; '' of others.
    """
    columns = spikes.columns
    if _period(times, spikes):
        return ""
    steps = (
        f"{columns.size} steps ({_listed(times.step_S[columns])}) are far longer than the others"
    )
    share = float(np.sum(spikes.longer_S[columns]) / np.nansum(times.window_S))
    if share < LEAST_COST:
        return f"{steps}; together they cost {100 * share:.2g} % of the time."
    longer_N = spikes.longer_S[columns] / middle(times.window_S)
    if _may_be_one_rank(times) and (longer_N >= SHORT_RISE).sum() < FEWEST:
        return f"{steps}; ranks wait in their timers, so that a pause of one rank looks the same."
    return ""


def _may_be_one_rank(times: PhaseTimes) -> bool:
    """Whether what most ranks do longer may be their waiting for one."""
    if times.hidden:
        return max(times.hidden.values()) >= BORDER
    return not times.has_roles


def _period(times: PhaseTimes, spikes: _Spikes) -> int | None:
    return period_of(times.step_S[spikes.columns[spikes.columns >= spikes.begins]])


def _finding(times: PhaseTimes, spikes: _Spikes, rows: tuple[int, ...], attempt: int) -> Finding:
    columns, num_steps = spikes.columns, times.step_S.size
    first, gap = int(columns[0]), int(np.diff(columns).max())
    last = num_steps - 1 if num_steps - 1 - columns[-1] <= 2 * gap else int(columns[-1])
    span = slice(first, last + 1)
    per_step_ms = float(np.sum(spikes.longer_S[columns])) / (last - first + 1)
    share = per_step_ms / middle(times.window_S[span])
    shown = int(spikes.excess_RN[:, 0].argmax())
    lost = Lost(rows, Episode(first, last, share), share, shown)
    period = _period(times, spikes)
    is_long = middle(spikes.longer_S[columns] / times.window_S[columns]) >= SURE_SPIKE
    is_sure = bool(period and is_long and not rows and not times.waits_hidden)
    words = _words(times, rows, _rhythm(times.step_S[columns], period))
    words = replace(words, confidence="high" if is_sure else "medium")
    finding = finding_of(times, lost, attempt, words)
    cost = finding.cost and replace(finding.cost, basis=MEASURED)  # against the steps around
    evidence = (_evidence(times, spikes, finding), *finding.evidence)
    return replace(finding, cost=cost, evidence=evidence)


def _evidence(times: PhaseTimes, spikes: _Spikes, finding: Finding) -> Evidence:
    longer_ms = middle(spikes.longer_S[spikes.columns])
    steps = times.step_S[spikes.columns]
    at, rhythm = int(steps[0]), _rhythm(steps, period_of(steps))
    every = f"; {rhythm.num} in {rhythm.period}" if rhythm else ""
    view = tuple((k, (at, at) if k == "steps" else v) for k, v in finding.evidence[0].view)
    return Evidence(
        f"{steps.size} of {times.step_S.size} steps ({_listed(steps)}{every}) take "
        f"{in_ms(longer_ms)} "
        f"longer than those around them; {spikes.others} "
        f"{in_ms(max(spikes.others_ms, 0.0))}.",
        round(longer_ms, 3),
        "ms",
        "rank_phases",
        finding.evidence[0].params,
        view,
    )


def period_of(steps: Ints) -> int | None:
    """Steps from one to the next where most of them come regularly, three or more, and most of
    those that are due do come. Those side by side come together, and the first of them counts.

    Any two of them give a distance and a place to count from; the one that most of them fit.
    """
    steps = np.concatenate((steps[:1], steps[1:][np.diff(steps) > 1]))
    best, period = 0, None
    for gap in np.unique(steps[None, :] - steps[:, None]):
        if gap <= 1:
            continue
        off = (steps[None, :] - steps[:, None] + gap // 2) % gap - gap // 2
        fits = np.abs(off) <= _JITTER * gap
        due = steps[fits[fits.sum(axis=1).argmax()]]
        is_regular = due.size >= max(FEWEST, MOST_REGULAR * steps.size)
        num_due = 1 + round((due[-1] - due[0]) / gap)
        if is_regular and due.size >= max(best, MOST_REGULAR * num_due):
            best, period = due.size, int(gap)
    return period


@dataclass(frozen=True)
class _Rhythm:
    """So many long steps side by side, once in so many steps."""

    num_steps: int
    period: int

    @property
    def num(self) -> str:
        return "one" if self.num_steps == 1 else str(self.num_steps)

    @property
    def title(self) -> str:
        step = "step" if self.num_steps == 1 else "steps"
        is_long = "is long" if self.num_steps == 1 else "are long"
        return f"{self.num.capitalize()} {step} in {self.period} {is_long}"


def _rhythm(steps: Ints, period: int | None) -> _Rhythm | None:
    """`period`: of the steps; None where they have none."""
    if period is None:
        return None
    occasions = 1 + int((np.diff(steps) > 1).sum())
    return _Rhythm(max(round(steps.size / occasions), 1), period)


MOST_REGULAR = 0.75
_JITTER = 0.03
_MOST_LISTED = 5


def _listed(steps: Ints) -> str:
    named = ", ".join(map(str, steps[:_MOST_LISTED].tolist()))
    return named + (", ..." if steps.size > _MOST_LISTED else "")


def _words(times: PhaseTimes, rows: tuple[int, ...], rhythm: _Rhythm | None) -> Words:
    who = named_ranks(times.ranks.rank_R[list(rows)]) if rows else "all ranks"
    when, loses = "A few steps are", "rare long steps"
    if rhythm:
        when = rhythm.title.removesuffix(" long")
        loses = f"{rhythm.num} long step{'s' * (rhythm.num_steps > 1)} in {rhythm.period}"
    how = "longer" if times.waits_hidden else "longer in compute"
    return Words(
        "jit_spikes",
        rhythm.title if rhythm and not rows else f"Rare long steps on {who}",
        f"on average to {loses}",
        f"{when} far {how} than all others on {who}, as when something compiles or tunes itself, "
        "or when the job does work that has no span of its own.",
        (
            "Rare work on purpose that has no span of its own (evaluation, logging, a scheduler of "
            "the job): only names distinguish them.",
            "Allocator stalls or garbage collections that were not recorded.",
        ),
        "Look at what runs in these steps: log recompilations (TORCH_LOGS=recompiles), pad or "
        "bucket shapes, warm up what is compiled before training.",
        confidence="medium",
    )
