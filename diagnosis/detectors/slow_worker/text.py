"""The words of a slow_worker finding."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from diagnosis.detectors.slow_worker.evidence import Suspect, Waits, evidence_of
from diagnosis.findings import Cost, Finding, cost_of
from diagnosis.statistics.episodes import Episode
from diagnosis.statistics.peers import Work
from diagnosis.statistics.shared_location import place_of
from diagnosis.statistics.units import waits_of_each, when_text

URGENT_SLOWDOWN = 1.1
"""Jobs at least 1.1 times as long as without stragglers count as straggling (2505.05713). As it is
shown, with two digits: of hosts that are equally slow, all are urgent or none."""

_VICTIM_SHARE = 0.1
"""Victims sit in groups in which the culprit caused at least this share of its waiting."""


_RANKS_NAMED = 5


def finding_of(work: Work, suspect: Suspect, groups: pa.Table, attempt: int) -> Finding:
    """The finding of one slow rank."""
    ranks, steps = work.ranks, work.step_S[suspect.whole]
    rank = int(ranks.rank_R[suspect.row])
    first, last = int(steps[0]), int(steps[-1])
    waiting_ranks, waiting_share = _waiting_ranks(rank, groups)
    waits = _waits(work, suspect, len(waiting_ranks), waiting_share)
    confidence = _confidence(work, suspect, waits)
    is_urgent = round(suspect.slowdown, 2) >= URGENT_SLOWDOWN and confidence != "low"
    severity = "urgent" if is_urgent else "warning"
    return Finding(
        kind="slow_worker",
        attempt=attempt,
        severity=severity if suspect.ongoing else "past",
        confidence=confidence,
        title=f"Rank {rank} {'is' if suspect.ongoing else 'was'} slow",
        text=_text(suspect, waits, first, last),
        culprits=(place_of(ranks, suspect.row),),
        victims=tuple(
            sorted(waiting_ranks - set(work.ranks.rank_R[suspect.culprit_rows].tolist()))
        ),
        first_step=first,
        last_step=last,
        ongoing=suspect.ongoing,
        slowdown=round(suspect.slowdown, 4),
        cost=_cost(work, suspect, waits),
        episodes=_episodes(work, suspect),
        evidence=evidence_of(work, suspect, waits, attempt),
        alternatives=_alternatives(work, suspect, waits),
        next_step=_next_step(work, suspect),
        cause=f"Rank {rank} takes longer to compute the same work than {_whom(suspect)}.",
    )


def _episodes(work: Work, suspect: Suspect) -> tuple[tuple[int, int], ...]:
    """First and last step of each stretch, where it is slow on and off."""
    if len(suspect.stretches) == 1:
        return ()
    steps = work.step_S
    return tuple((int(steps[s.first]), int(steps[s.last])) for s in suspect.stretches)


def _whom(suspect: Suspect) -> str:
    return "it did before" if suspect.whom == "own past" else "its peers"


def _cost(work: Work, suspect: Suspect, waits: Waits | None) -> Cost | None:
    """All wait for what it computes longer; wall time grows as CPU time does, but steps by no more
    than each of those that wait for it does.
    """
    at = suspect.columns
    own_ms = np.nanmean(work.wall_RS[suspect.row, at])
    longer_ms = own_ms * suspect.episode.excess / suspect.slowdown
    step_ms = float(np.nanmean(work.step_ms_RS[:, at]))
    if waits is not None and waits.num_waiting:
        in_all = suspect.whole.stop - suspect.whole.start
        longer_ms = np.minimum(longer_ms, waits.each_ms * in_all / at.size)
    return cost_of(float(longer_ms), step_ms, at.size, work.ranks.world_size)


def begun_text(work: Work, new: dict[int, Episode]) -> str:
    """What began to be slow in the newest steps, by row of the rank: worst first."""
    worst = sorted(new, key=lambda row: -new[row].excess)
    ranks = ", ".join(str(work.ranks.rank_R[row]) for row in worst[:_RANKS_NAMED])
    more = f" and {len(new) - _RANKS_NAMED} more" if len(new) > _RANKS_NAMED else ""
    since = int(work.step_S[min(episode.first for episode in new.values())])
    who, whose, it = (
        (f"Rank {ranks} computes", "its", "it is")
        if len(new) == 1
        else (f"Ranks {ranks}{more} compute", "their", "they are")
    )
    upto = "up to " if len(new) > 1 else ""
    return (
        f"{who} {upto}{new[worst[0]].excess + 1:.2f}x as long as {whose} peers since step "
        f"{since}: too short to tell whether {it} slow."
    )


def _waits(work: Work, suspect: Suspect, num_waiting: int, share: float) -> Waits | None:
    """`num_waiting`, `share`: of _waiting_ranks; without any all of its stage count."""
    span = suspect.whole
    caused_RS = work.wait_caused_RS[:, span]
    own_S = caused_RS[suspect.row]
    known_S = np.isfinite(own_S)
    if not known_S.any():
        return None
    sums_R = np.nansum(caused_RS[:, known_S], axis=1)
    total_ms = float(np.nansum(work.step_ms_RS[:, span][:, known_S]))
    own = float(sums_R[suspect.row])
    stage_R = work.ranks.coords_R["pp"] == work.ranks.coords_R["pp"][suspect.row]
    others_R = np.delete(sums_R, suspect.culprit_rows)
    in_stage_R = sums_R[stage_R]
    num = int(known_S.sum())
    if not num_waiting:
        num_waiting, share = int(stage_R.sum()) - 1, 1.0
    return Waits(
        per_step_ms=own / num,
        share=min(own / total_ms, 1.0) if total_ms > 0 else 0.0,
        of_all=own / max(float(sums_R.sum()), 1e-9),
        median_ms=float(np.median(others_R)) / num if others_R.size else 0.0,
        is_worst=own >= float(in_stage_R.max(initial=0.0)),
        place=1 + int((sums_R > own).sum()),
        num_waiting=num_waiting,
        each_ms=share * own / num / max(num_waiting, 1),
    )


def _confidence(work: Work, suspect: Suspect, waits: Waits | None) -> str:
    """high: three peers and the latest of its stage; low: its own past or unknown roles only."""
    if suspect.whom == "own past" or not work.ranks.has_roles:
        return "low"
    return "high" if waits is not None and waits.is_worst else "medium"


def _text(suspect: Suspect, waits: Waits | None, first: int, last: int) -> str:
    whom = {"own past": "before", "all ranks": "that of the other ranks"}.get(
        suspect.whom, "its peers'"
    )
    when = when_text(first, last, suspect.ongoing)
    if not suspect.ongoing:
        text = f"Its compute took {suspect.slowdown:.2f}x as long as {whom} {when}"
    else:
        text = f"Its compute takes {suspect.slowdown:.2f}x as long as {whom} {when}"
    if len(suspect.stretches) > 1:
        num = suspect.columns.size
        of = suspect.whole.stop - suspect.whole.start
        text += f", on and off ({len(suspect.stretches)} times, {num} of {of} steps)"
    if waits is None or not waits.num_waiting:
        return f"{text}."
    total_ms = waits.num_waiting * waits.each_ms
    return f"{text}; {waits_of_each(waits.num_waiting, total_ms, not suspect.ongoing)}."


def _waiting_ranks(rank: int, groups: pa.Table) -> tuple[set[int], float]:
    """Who waits in a group with it, without groups that hardly do; and their share of all waiting
    for it. Others of its stage wait for one of these, not for it.
    """
    rows = [row for row in groups.to_pylist() if row["rank"] == rank and row["ranks"]]
    total = sum(row["wait_caused_ms"] for row in rows)
    waiting = [row for row in rows if row["wait_caused_ms"] >= _VICTIM_SHARE * total]
    ranks = {member for row in waiting for member in row["ranks"]} - {rank}
    return ranks, sum(row["wait_caused_ms"] for row in waiting) / total if total else 0.0


def _alternatives(work: Work, suspect: Suspect, waits: Waits | None) -> tuple[str, ...]:
    texts = ["Slow memory instead of slow compute: only times by operation distinguish them."]
    if work.measure == "wall":
        texts.append(
            "Another process on its host (host contention): CPU time was not recorded, so a rank "
            "that computes more and one that is kept from computing look the same."
        )
    if suspect.whom == "all ranks":
        texts.append("More work for this rank than for others: its role is not known.")
    if suspect.whom == "own past":
        texts.append("More work for its whole stage (slow stage): it has fewer than 3 peers.")
    if suspect.whom == "stage":
        texts.append("More work for this rank than for others of its stage: a longer layer there.")
    if waits is None:
        texts.append("Perhaps no rank waits for it: clocks are not aligned across ranks.")
    elif not waits.is_worst:
        texts.append("It is not the one others wait for most: it may hide behind another delay.")
    return tuple(texts)


def _next_step(work: Work, suspect: Suspect) -> str:
    place = place_of(work.ranks, suspect.row)
    host = f" on {place.host}" if place.host else ""
    device = "its cores (frequency, other processes)" if work.ranks.on_cpu else "its clocks and "
    device += "" if work.ranks.on_cpu else "throttle reasons (nvidia-smi -q -d PERFORMANCE)"
    return (
        f"Look at the device of rank {place.rank}{host}: {device}; run the same matrix product on "
        "it and on a peer, and swap it out if it stays slower."
    )
