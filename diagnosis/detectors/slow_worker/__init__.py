"""slow_worker: one rank computes longer than its peers, step after step, and the others wait.

Who: compute against peers (diagnosis/statistics/peers.py) beyond noise for a sustained number of
steps (diagnosis/statistics/episodes.py). Why believe it: it comes last to the collectives of its
stage (wait_caused); late arrival names the culprit, not long calls (MegaScale, 2402.15627; what-if,
2505.05713).

A rank that is slow on and off, three times or more, is one finding, from its first stretch to its
last; bursts too short to count by themselves count together (recurring), and single steps where
they come more often than on its peers (sporadic).

Ranks that stand out together as a whole replica or stage are set aside: they may have more work.
Those of a whole host, whose work is like that of ranks on other hosts, are named with their host.
Ranks accused are no peers of others and make no noise, so that two slow ranks of one stage
do not hide each other.

A rank whose sequences are longer, as the job states them, is not slow: its finding is about these.

Where compute holds waiting for other ranks, forwards alone are compared
(diagnosis/statistics/own_work.py).

Known false positives: a rank that has more work for good (a longer last layer on one tp rank) looks
like a slow one. Known blind spots: a whole stage that is slow, or a host of whole stages or
replicas; a rank without 3 peers that is slow from the first step on (few_replicas.py compares some
of them); CPU contention where CPU time was not recorded looks the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from diagnosis.detectors.slow_worker.evidence import Suspect
from diagnosis.detectors.slow_worker.text import begun_text, finding_of
from diagnosis.findings import NotEnoughData, Verdict
from diagnosis.loading import balance
from diagnosis.loading.longer import KIND as LONGER
from diagnosis.loading.longer import with_longer_sequences
from diagnosis.statistics.episodes import (
    FEWEST_BURSTS,
    MIN_VOTES,
    OVER_AFTER_STEPS,
    Episode,
    begun,
    episodes,
    may_be_slow,
    may_recur,
    recurring,
    sporadic,
)
from diagnosis.statistics.late_ranks import (
    FEWEST_MOVING,
    LEAST_EVEN,
    SHORT_STEPS,
    evenness,
    is_calm,
    last_shares,
)
from diagnosis.statistics.own_work import own_work
from diagnosis.statistics.peers import (
    NOISE_STEPS,
    STEPS_OF_PAST,
    Peers,
    Work,
    noises,
    peers_of,
    slowdowns,
    step_noises,
    work_of,
)
from diagnosis.statistics.phase_times import middle, phase_times
from diagnosis.statistics.rank_tables import Bools, Floats
from diagnosis.statistics.replicas import beyond_replicas
from diagnosis.statistics.shared_location import shared_place, whole_host
from diagnosis.statistics.step_levels import WARM_UP_STEPS
from diagnosis.statistics.swings import no_swings
from diagnosis.statistics.units import steps_text

NAME = "slow_worker"
KINDS = ("slow_worker", LONGER)
QUESTIONS = ("rank_phases", "rank_work", "waits_by_group", *balance.QUESTIONS)

MIN_EXCESS = 0.03
"""Smallest slowdown - 1 that is named: below S = 1.03 attribution means nothing (what-if study)."""

_WAITS_HIDDEN = (
    "Ranks wait for each other inside the timer of their compute, so it does not show who computes "
    "longer: ranks are compared by the rest of their steps."
)

_NEWEST_STEPS = 10
"""What has begun is searched in this many of the newest steps."""


@dataclass(frozen=True)
class _Judged:
    """Matrices of one run. R ranks, S steps."""

    work: Work
    peers: Peers
    slow_RS: Floats  # accused ranks are no peers
    asked_RS: Floats  # all are peers, as the questions count
    threshold_R: Floats
    noise_R: Floats
    suspect_R: Bools


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict:
    """Verdict on the steps in `tables`: answers of QUESTIONS for one attempt and range of steps."""
    work = work_of(tables)
    if work.step_S.size < MIN_VOTES:
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, _too_few(work.step_S.size)),))
    work = own_work(work)
    if work.measure != "forward" and phase_times(tables).waits_hidden:
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, _WAITS_HIDDEN),))
    judged = _judge(work)
    comparable_R = np.isfinite(judged.slow_RS).sum(axis=1) >= MIN_VOTES
    missing = _missing(judged, comparable_R)
    if not comparable_R.any():
        return Verdict(NAME, not_enough=missing)
    by_row = _episodes(judged)
    culprits, set_aside = _single_ranks(judged, by_row)
    findings = tuple(
        finding_of(judged.work, suspect, tables["waits_by_group"], attempt)
        for suspect in _suspects(judged, culprits)
    )
    set_aside += _begun(judged, by_row)
    who = f"{'other ' if findings else ''}{'single ' if set_aside else ''}rank"
    findings = with_longer_sequences(findings, tables)
    return Verdict(NAME, findings, _checked(judged, comparable_R, who), missing, set_aside)


def _judge(work: Work) -> _Judged:
    peers = peers_of(work.ranks)
    everyone_R = np.ones(len(work.work_RS), np.bool_)
    first_RS = slowdowns(work, peers, everyone_R)
    newest_R = step_noises(first_RS[:, -NOISE_STEPS:], peers)  # work may vary since some step only
    lenient_R = np.fmax(np.fmax(step_noises(first_RS, peers), newest_R), MIN_EXCESS)
    suspect_R = _stand_out(first_RS, lenient_R)
    suspect_R[list(_sporadic(first_RS, lenient_R, peers))] = True
    slow_RS = slowdowns(work, peers, ~suspect_R) if suspect_R.any() else first_RS
    noise_R = noises(slow_RS, peers, ~suspect_R)
    noise_R = np.where(np.isfinite(noise_R), noise_R, step_noises(slow_RS, peers))
    threshold_R = np.fmax(noise_R, MIN_EXCESS)
    return _Judged(work, peers, slow_RS, first_RS, threshold_R, noise_R, suspect_R)


def _stand_out(slow_RS: Floats, threshold_R: Floats) -> Bools:
    """Ranks with an episode, or with bursts that recur."""
    suspect_R = may_be_slow(slow_RS - 1, threshold_R)
    for row in np.flatnonzero(may_recur(slow_RS - 1, threshold_R) & ~suspect_R):
        suspect_R[row] = bool(recurring(slow_RS[row] - 1, float(threshold_R[row])))
    return suspect_R


def _sporadic(slow_RS: Floats, threshold_R: Floats, peers: Peers) -> dict[int, list[Episode]]:
    """Single slow steps that come again, by index of rank."""
    by_row = {}
    for group in np.unique(peers.group_R):
        rows = np.flatnonzero(peers.group_R == group)
        of_group = sporadic(slow_RS[rows] - 1, threshold_R[rows])
        by_row.update({int(rows[at]): own for at, own in of_group.items()})
    return by_row


def _episodes(judged: _Judged) -> dict[int, list[Episode]]:
    """Episodes by index of rank, of ranks that have any."""
    by_row = {}
    now_and_then = _sporadic(judged.slow_RS, judged.threshold_R, judged.peers)
    for row in np.flatnonzero(judged.suspect_R):
        excess_S, threshold = judged.slow_RS[row] - 1, float(judged.threshold_R[row])
        own = episodes(excess_S, threshold) or recurring(excess_S, threshold)
        own = own or now_and_then.get(int(row), [])
        if judged.peers.whom_R[row] == "own past":
            own = [episode for episode in own if _has_grown(judged.work.work_RS[row], episode)]
        if own:
            by_row[int(row)] = own
    return _culprits(judged, by_row)


def _has_grown(work_S: Floats, episode: Episode) -> bool:
    """Whether there is a past that the rank computes longer than by itself: where only what the
    others do has changed, or it was so from the first step on, nobody is slower than before.
    """
    before_S = work_S[: episode.first]
    if np.isfinite(before_S).sum() < STEPS_OF_PAST:
        return False
    return middle(work_S[episode.first : episode.last + 1]) > (1 + MIN_EXCESS) * middle(before_S)


def _culprits(judged: _Judged, by_row: dict[int, list[Episode]]) -> dict[int, list[Episode]]:
    """Ranks that compute longer by about as much in each of these steps, and than whom nobody but
    others of them does.
    """
    excess_RS = judged.slow_RS - 1
    even: dict[int, list[Episode]] = {}
    for row, own in by_row.items():
        steady = [e for e in own if evenness(excess_RS[row, e.first : e.last + 1]) >= LEAST_EVEN]
        if steady:
            even[row] = steady
    spans = [(row, own[0].first, own[-1].last) for row, own in even.items()]
    rows, group_R = list(even), judged.peers.group_R
    even = {rows[at]: even[rows[at]] for at in sorted(no_swings(excess_RS, group_R, spans))}
    calm = is_calm(excess_RS, even, judged.threshold_R)
    if not calm:
        even = {row: _lasting(own) for row, own in even.items()}
    cells = [
        (row, np.concatenate([np.arange(episode.first, episode.last + 1) for episode in own]))
        for row, own in even.items()
    ]
    if not calm:
        cells = [cell for cell in cells if cell[1].size >= SHORT_STEPS]
    last = last_shares(excess_RS, judged.peers.group_R, cells)
    left = {cells[index][0]: even[cells[index][0]] for index in sorted(last)}
    short = {
        row for row, own in left.items() if max(e.last - e.first + 1 for e in own) < SHORT_STEPS
    }
    moves = len(short) >= FEWEST_MOVING and not _at_once([left[row] for row in sorted(short)])
    return {row: own for row, own in left.items() if not (moves and row in short)}


def _lasting(own: list[Episode]) -> list[Episode]:
    """Those of SHORT_STEPS or more, where there are any: shorter ones of the same rank may be
    swings that all ranks have.
    """
    return [e for e in own if e.last - e.first + 1 >= SHORT_STEPS] or own


def _at_once(apart: list[list[Episode]]) -> bool:
    """Whether ranks are slow in the same steps: a cause that they share, no swings that move."""
    return all(_overlap(apart[0], own) for own in apart[1:])


def _single_ranks(
    judged: _Judged, by_row: dict[int, list[Episode]]
) -> tuple[dict[int, list[Episode]], tuple[str, ...]]:
    """Single ranks and those of whole hosts, and sentences on whole replicas and stages, and hosts
    of such, that are slow together.
    """
    work, steps = judged.work, judged.work.step_S
    left, set_aside = dict(by_row), []
    for row in sorted(by_row):
        if row not in left:
            continue
        together = np.array([o for o in left if _overlap(by_row[row], by_row[o])])
        of_host = whole_host(work.ranks, row, together)  # made one finding in one_cause/hosts.py
        place = None if of_host else shared_place(work.ranks, row, together)
        if place is not None:
            name, rows = place
            slow = float(np.median([by_row[r][-1].excess for r in rows])) + 1
            since = int(steps[min(by_row[r][-1].first for r in rows)])
            set_aside.append(
                f"All {len(rows)} ranks of {name} take {slow:.2f}x as long to compute as their "
                f"peers since step {since}: that is {name}, not one slow worker."
            )
            left = {r: own for r, own in left.items() if r not in rows}
            continue
        if not work.ranks.has_roles and _is_its_share(judged, row, by_row[row]):
            set_aside.append(
                f"Rank {work.ranks.rank_R[row]} computes {by_row[row][-1].excess + 1:.2f}x as long "
                "as the others from the first step on, or about as much more in other steps; the "
                "layout is unknown, so this may be its share."
            )
            del left[row]
    return left, tuple(set_aside)


def _is_its_share(judged: _Judged, row: int, own: list[Episode]) -> bool:
    """Whether it computes longer from the first step on, or half as much longer in other steps."""
    outside_S = np.ones(judged.work.step_S.size, np.bool_)
    outside_S[:WARM_UP_STEPS] = False
    for episode in own:
        outside_S[episode.first : episode.last + 1] = False
    usual = middle(judged.slow_RS[row, outside_S]) - 1
    return own[-1].first == 0 or usual >= own[-1].excess / 2


def _overlap(own: list[Episode], other: list[Episode]) -> bool:
    a, b = own[-1], other[-1]
    shared = min(a.last, b.last) - max(a.first, b.first) + 1
    return shared > max(a.last - a.first, b.last - b.first) / 2


def _suspects(judged: _Judged, culprits: dict[int, list[Episode]]) -> list[Suspect]:
    rows: npt.NDArray[np.int64] = np.array(sorted(culprits), np.int64)
    last = judged.work.step_S.size - 1
    return [
        Suspect(
            row=row,
            stretches=stretches,
            asked_RS=judged.asked_RS,
            noise=float(judged.noise_R[row]),
            whom=str(judged.peers.whom_R[row]),
            num_peers=int((judged.peers.group_R == judged.peers.group_R[row]).sum()) - 1,
            ongoing=last - stretches[-1].last < OVER_AFTER_STEPS,
            culprit_rows=rows,
        )
        for row in rows.tolist()
        for stretches in _grouped(culprits[row])
    ]


def _grouped(own: list[Episode]) -> list[tuple[Episode, ...]]:
    """All of them where a rank is slow on and off, else each by itself."""
    return [tuple(own)] if len(own) >= FEWEST_BURSTS else [(episode,) for episode in own]


def _begun(judged: _Judged, by_row: dict[int, list[Episode]]) -> tuple[str, ...]:
    """One sentence on ranks that are slow in the newest steps and were not named for those."""
    new = {}
    for row, slow_S in enumerate(judged.slow_RS[:, -_NEWEST_STEPS:]):
        episode = begun(slow_S - 1, float(judged.threshold_R[row]))
        if episode is not None:
            shift = max(judged.work.step_S.size - _NEWEST_STEPS, 0)
            first = episode.first + shift
            if all(known.last < first for known in by_row.get(row, [])):
                new[row] = Episode(first, episode.last + shift, episode.excess)
    return (begun_text(judged.work, new),) if new else ()


def _checked(judged: _Judged, comparable_R: Bools, who: str) -> str:
    step_S = judged.work.step_S
    return (
        f"No {who} was slow (by {200 * MIN_EXCESS:.0f} % and twice its peers' noise) for "
        f"{MIN_VOTES:.0f} steps or longer, steadily and beyond what ranks swing by, in "
        f"{steps_text(step_S[0], step_S[-1])}; "
        f"{int(comparable_R.sum())} ranks compared."
    )


def _too_few(num_steps: int) -> str:
    if num_steps == 0:
        return "No step is finished yet; ranks are compared from the fourth on."
    seen = "1 step is" if num_steps == 1 else f"{num_steps} steps are"
    return f"Only {seen} finished; ranks are compared from {MIN_VOTES:.0f} steps on."


def _how_many(num: int, of: int) -> str:
    """ "1 of 8 ranks has", "2 of 8 ranks have"; of all: "The only rank has", "All 8 ranks have"."""
    if num == of:
        return "The only rank has" if of == 1 else f"All {of} ranks have"
    return f"{num} of {of} ranks {'has' if num == 1 else 'have'}"


def _missing(judged: _Judged, comparable_R: Bools) -> tuple[NotEnoughData, ...]:
    ranks, sentences = judged.work.ranks, []
    silent = ranks.world_size - len(ranks.rank_R)
    if silent > 0:
        sentences.append(
            f"{_how_many(silent, ranks.world_size)} no finished step, so nothing is known of "
            f"{'it' if silent == 1 else 'them'}."
        )
    unjudged = int((~comparable_R).sum())
    if unjudged:
        sentences.append(
            f"{_how_many(unjudged, len(ranks.rank_R))} fewer than 3 peers, and there are too "
            "few ranks or steps to tell a slow rank from a change of the work."
        )
    alone_R = judged.peers.whom_R == "own past"
    by_replica_R = np.isfinite(beyond_replicas(judged.work, alone_R)).sum(axis=1) >= MIN_VOTES
    alone = int((comparable_R & alone_R & ~by_replica_R).sum())  # few_replicas.py has the others
    if alone:
        sentences.append(
            f"{_how_many(alone, len(ranks.rank_R))} fewer than 3 peers: a slowness that "
            "was there from the first step on is not seen."
        )
    if comparable_R.any() and not np.isfinite(judged.work.wait_caused_RS).any():
        sentences.append(
            "Clocks are not aligned or collectives not recorded: who waits for whom is not known."
        )
    return tuple(NotEnoughData(NAME, sentence) for sentence in sentences)
