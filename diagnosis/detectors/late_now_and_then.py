"""data_loader, slow_worker, launch_skew: a rank that comes late in some steps only, so often since
some step that the job is slower for it.

Where steps have become longer (diagnosis/statistics/step_levels.py), or are longer on average
since one rank strikes time and again (diagnosis/statistics/episodes.py: so few long steps move no
level), what each is longer by is attributed to the rank that comes last in it, as far as it is
late. One rank or two that take most of it, and did not before, are named. A rank that strikes as
often while steps are as long as ever is not: where ranks swing by themselves some rank is late in
any step; nor one that does so for fewer steps than make a level.

Source: late arrival names the culprit (MegaScale, 2402.15627); the rule is ours. Assumes: what a
rank is late by lengthens the step. Known false positives: two things that begin at once. Blind
spots: more than two ranks; what has been so from the first steps on; less than what makes steps
longer by 5 %. Cost: one pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from diagnosis.detectors.rotating_skew import moving
from diagnosis.findings import Finding, Verdict
from diagnosis.loading.explained import explained
from diagnosis.loading.workers import QUESTION, slow_everywhere
from diagnosis.statistics.episodes import LEAST_DENSE, Episode, sporadic
from diagnosis.statistics.late_ranks import candidates_of_one, is_calm, late_by
from diagnosis.statistics.peers import NOISE_MADS
from diagnosis.statistics.phase_findings import Lost, Words, finding_of
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, comparable, phase_times
from diagnosis.statistics.rank_tables import Bools, Floats, Ints
from diagnosis.statistics.step_levels import (
    FEWEST_STEPS,
    LEAST_RISE,
    WARM_UP_STEPS,
    Rise,
    longer_than_between,
    rises,
)
from diagnosis.statistics.units import named_ranks

NAME = "late_now_and_then"
KINDS = ("data_loader", "slow_worker", "launch_skew")
QUESTIONS = ("rank_phases", "rank_places", QUESTION)

MOST_OF_LATE, LEAST_OF_RISE = 0.7, 0.3
"""The least that the named ranks take together of what late ranks take, and of what steps are
longer by: work of all ranks may have become more at the same time."""

_LEAST_OF_TWO = 0.25
_FEWEST_STRUCK = 4
_OF_BEFORE, _AS_LATE = 0.25, 0.25
"""A rank that struck at more than a quarter of this rate before, by a quarter of the usual or more,
is no news."""

MOVED = 0.5
"""What strikes one rank and then another is a habit of the hosts, no fault of a rank."""

_STEPS_BEFORE = 100
_REASONS = ("data", "compute", "stretch", "rest")
_OF_OTHERS = ("gc", "checkpoint")
"""Detectors of their own name who is late by these in every step."""

_RECURRING = ("data", "stretch", "rest")
"""What slow_worker does not look for in single steps."""
_LEAST_DENSE = 1 / 25
"""Of the steps: four strikes in the _STEPS_BEFORE, that they are missing there is no chance. Rarer
ones than LEAST_DENSE belong to jit_spikes, but it leaves waits for data to others and names nobody
where ranks wait in their compute."""


@dataclass(frozen=True)
class _Strikes:
    """What steps are longer by and who comes last in them. R ranks, S steps of the rise."""

    last_S: Ints
    late_S: Floats  # share of a step by which the last one comes late
    taken_R: Floats  # share of what all steps are longer by


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None where ranks cannot be compared
    or no steps are longer.
    """
    times = phase_times(tables)
    if not comparable(times):
        return None
    longer = rises(times.window_S)
    longer += [rise for rise in _by_strikes(times) if not _meets_any(rise, longer)]
    if not longer:
        return None
    steady = [*late_by(times, _REASONS), *late_by(times, (*_REASONS, *_OF_OTHERS))]
    free_S = np.ones(times.step_S.size, np.bool_)  # of ranks late in every step, one or by turns
    for late in steady:
        free_S[late.span] = False
    for episode in [] if times.waits_hidden else moving(times):
        free_S[episode.first : episode.last + 1] = False
    found = [finding for rise in longer for finding in _of_rise(times, rise, free_S, attempt)]
    if slow_everywhere(tables) is not None:  # data_loader says it of the whole job
        found = [finding for finding in found if finding.kind != "data_loader"]
    findings = [explained(finding, tables) for finding in found]
    checked = "No one or two ranks explain by coming late now and then why steps became longer."
    return Verdict(NAME, tuple(findings), None if findings else checked)


def _by_strikes(times: PhaseTimes) -> list[Rise]:
    """Steps that are LEAST_RISE longer on average than those before since a rank strikes."""
    longer: list[Rise] = []
    for reason in _RECURRING:
        for strikes in _striking(times, reason).values():
            rise = _on_average(times.window_S, strikes[0].first, strikes[-1].last)
            if rise is not None and not _meets_any(rise, longer):
                longer.append(rise)
    return longer


def _striking(times: PhaseTimes, reason: str) -> dict[int, list[Episode]]:
    """Single steps in which ranks are late for one reason time and again, by row; rare ones only
    where hardly any other rank ever stands out.
    """
    found = candidates_of_one(times, reason, NOISE_MADS)
    excess_RS = np.nan_to_num(found.excess_RS)

    def by_row(dense: float) -> dict[int, list[Episode]]:
        strikes: dict[int, list[Episode]] = {}
        for stage in np.unique(times.stage_R):
            rows = np.flatnonzero(times.stage_R == stage)
            of_stage = sporadic(excess_RS[rows], found.threshold_R[rows], dense)
            strikes |= {int(rows[at]): own for at, own in of_stage.items()}
        return strikes

    if reason == "data" or times.waits_hidden:
        rare = by_row(_LEAST_DENSE)
        if is_calm(excess_RS, rare, found.threshold_R):
            return rare
    return by_row(LEAST_DENSE)


def _on_average(window_S: Floats, first: int, last: int) -> Rise | None:
    before_S = window_S[max(first - _STEPS_BEFORE, WARM_UP_STEPS) : first]
    if np.isfinite(before_S).sum() < FEWEST_STEPS:
        return None
    before_ms, now_ms = float(np.nanmean(before_S)), float(np.nanmean(window_S[first : last + 1]))
    rise = Rise(first, last, before_ms, now_ms)
    return rise if rise.excess >= LEAST_RISE else None


def _meets_any(rise: Rise, others: Sequence[Rise]) -> bool:
    return any(rise.first <= other.last and other.first <= rise.last for other in others)


def _of_rise(times: PhaseTimes, rise: Rise, free_S: Bools, attempt: int) -> list[Finding]:
    at = rise.first + np.flatnonzero(free_S[rise.first : rise.last + 1])
    if at.size < FEWEST_STEPS:
        return []
    strikes = _strikes(times, at, rise.before_ms)
    rows = _culprits(times, rise, strikes)
    whole = {row: _whole(times, rise, row) for row in rows}
    struck = np.unique(np.concatenate([*whole.values(), at[:0]]))
    if struck.size and not longer_than_between(times.window_S, struck):
        return []  # steps are longer for another reason
    found = [_finding(times, rise, strikes, row, whole[row], attempt) for row in rows]
    return [finding for finding in found if finding is not None]


def _strikes(times: PhaseTimes, at: Ints, before_ms: float) -> _Strikes:
    """What happens in these columns."""
    late_RS = np.nan_to_num(times.late_RS[:, at])
    window_S = np.nan_to_num(times.window_S[at])
    last_S = late_RS.argmax(axis=0)
    late_S = np.maximum(late_RS.max(axis=0), 0.0)
    longer_S = np.maximum(window_S - before_ms, 0.0)
    explained_S = np.where(late_S >= MIN_EXCESS, np.minimum(late_S * window_S, longer_S), 0.0)
    taken_R = np.bincount(last_S, explained_S, minlength=len(late_RS))
    return _Strikes(last_S, late_S, taken_R / max(float(longer_S.sum()), 1e-9))


def _culprits(times: PhaseTimes, rise: Rise, strikes: _Strikes) -> list[int]:
    """One row or two that take most of it and struck less before; none otherwise."""
    first, second = np.argsort(-strikes.taken_R)[:2].tolist()
    all_late = float(strikes.taken_R.sum())
    rows = [first]
    if strikes.taken_R[second] >= _LEAST_OF_TWO * all_late:
        rows = sorted([first, second])
    taken = float(strikes.taken_R[rows].sum())
    if taken < max(MOST_OF_LATE * all_late, LEAST_OF_RISE):
        return []
    before = np.arange(max(rise.first - _STEPS_BEFORE, 0), rise.first)
    earlier = _strikes(times, before, 0.0)
    if _moves(times, rise, rows):
        return []
    return [row for row in rows if _is_news(strikes, earlier, row)]


def _moves(times: PhaseTimes, rise: Rise, rows: list[int]) -> bool:
    """Whether another rank once lost for as long, for the same reason, what one of these does now,
    or at least MOVED of it.
    """
    everywhere = _strikes(times, np.arange(times.step_S.size), 0.0)
    return any(_was_elsewhere(times, everywhere, rise, row, rows) for row in rows)


def _was_elsewhere(
    times: PhaseTimes, everywhere: _Strikes, rise: Rise, row: int, rows: list[int]
) -> bool:
    at = rise.first + np.flatnonzero(_struck(everywhere, row)[rise.first : rise.last + 1])
    reason, _ = _reason(times, row, at)
    lost_RS = np.maximum(np.nan_to_num(times.beyond_peers(reason)), 0.0)
    for other in range(len(lost_RS)):
        lost_RS[other] *= _struck(everywhere, other)
    own = float(lost_RS[row, rise.first : rise.last + 1].sum())
    sums_RS = np.cumsum(np.pad(np.delete(lost_RS, rows, axis=0), ((0, 0), (1, 0))), axis=1)
    length = rise.last - rise.first + 1
    most = float((sums_RS[:, length:] - sums_RS[:, :-length]).max(initial=0.0))
    return most >= MOVED * own


def _reason(times: PhaseTimes, row: int, at: Ints) -> tuple[str, float]:
    """The phase that a rank has most more of than its peers in these columns, and how much."""
    beyond = {name: float(np.nanmean(times.beyond_peers(name)[row, at])) for name in _REASONS}
    reason = max(beyond, key=lambda name: np.nan_to_num(beyond[name]))
    return reason, beyond[reason]


def _is_news(strikes: _Strikes, earlier: _Strikes, row: int) -> bool:
    now, then = (_struck(each, row) for each in (strikes, earlier))
    if now.sum() < _FEWEST_STRUCK:
        return False
    then &= earlier.late_S >= _AS_LATE * np.median(strikes.late_S[now])
    return bool(then.mean() <= _OF_BEFORE * now.mean())


def _struck(strikes: _Strikes, row: int) -> Bools:
    struck_S: Bools = (strikes.last_S == row) & (strikes.late_S >= MIN_EXCESS)
    return struck_S


def _whole(times: PhaseTimes, rise: Rise, row: int) -> Ints:
    """Columns of all strikes that follow each other about as closely as those of the rise, without
    those that are small against them.
    """
    everywhere = _strikes(times, np.arange(times.step_S.size), 0.0)
    struck_S = _struck(everywhere, row)
    span = slice(rise.first, rise.last + 1)
    usual = float(np.median(everywhere.late_S[span][struck_S[span]]))
    at = np.flatnonzero(struck_S & (everywhere.late_S >= _AS_LATE * usual))
    inside = at[(at >= rise.first) & (at <= rise.last)]
    near = _NEAR * float(np.mean(np.diff(inside)))
    group = np.concatenate(([0], np.cumsum(np.diff(at) > near)))
    return at[np.isin(group, group[np.isin(at, inside)])]


_NEAR = 5.0
"""Mean distances: of strikes at random one gap in 150 is longer."""


def _finding(
    times: PhaseTimes, rise: Rise, strikes: _Strikes, row: int, at: Ints, attempt: int
) -> Finding | None:
    reason, lost = _reason(times, row, at)
    if not lost >= MIN_EXCESS:
        return None
    share = float(strikes.taken_R[row]) * (rise.now_ms - rise.before_ms) / rise.now_ms
    begins, ends = int(at[0]), int(at[-1])
    if ends - begins + 1 < FEWEST_STEPS:
        return None  # steps may be longer for another reason
    what = Lost((row,), Episode(begins, ends, share), share, row)
    words = _words(times, row, reason, (at.size, ends - begins + 1))
    return replace(finding_of(times, what, attempt, words), confidence="medium")


_KIND = {"data": "data_loader", "compute": "slow_worker"}
_LOSES = {
    "data": "on average to waiting for the next batch",
    "compute": "on average to longer compute",
    "stretch": "on average to standing still in the middle of its operations",
    "rest": "on average to time outside of its recorded phases",
}


def _words(times: PhaseTimes, row: int, reason: str, steps: tuple[int, int]) -> Words:
    who = named_ranks([int(times.ranks.rank_R[row])])
    title = f"{who[0].upper()}{who[1:]} comes late now and then"
    struck, of = steps
    return Words(
        _KIND.get(reason, "slow_worker" if times.waits_hidden else "launch_skew"),
        title,
        f"{_LOSES[reason]} ({struck} of {of} steps)",
        f"{title}, in {struck} of {of} steps, and the others wait: steps are longer since.",
        (
            "Pauses that were not recorded as what they are: garbage collections, allocator "
            "stalls, other processes on its host.",
            "Work that this rank alone does in some steps (logging, saving).",
        ),
        "Look at what this rank does in the steps in which it comes last, and at its host.",
    )
