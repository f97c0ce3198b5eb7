"""Where a rank stands in a group: the oldest collective that it has entered and not completed.

A rank may stand in one that every member has entered and others have left: a broadcast, gather or
scatter lets members go before all have their part, and one whose roots differ keeps only some.
"""

from __future__ import annotations

from collections.abc import Iterable

from diagnosis.stuck.evidence import COMPLETED, WAITS, Entered, Evidence


def collectives_of(evidence: Evidence, group_id: int) -> dict[int, tuple[Entered, ...]]:
    """What each rank has entered in a group, without messages."""
    return {
        rank: tuple(one for one in rows if not one.is_message)
        for rank, rows in evidence.entered[group_id].items()
    }


def open_of(rows: Iterable[Entered]) -> Entered | None:
    """The oldest one without an end after the newest that has completed."""
    ordered = sorted(rows, key=lambda one: one.seq)
    done = newest_done(ordered)
    return next((one for one in ordered if one.state == WAITS and one.seq > done), None)


def newest_done(rows: Iterable[Entered]) -> int:
    """Number of the newest one that has completed; -1 none."""
    return max((one.seq for one in rows if one.state == COMPLETED), default=-1)


def held_in(rank: int, evidence: Evidence) -> Entered | None:
    """The newest thing a rank has entered, if that is an open collective which nobody lacks."""
    own = [one for ranks in evidence.entered.values() for one in ranks.get(rank, ())]
    newest = max(own, key=lambda one: one.enqueue_ns, default=None)
    if newest is None or newest.is_message or newest.state != WAITS:
        return None
    by_rank = collectives_of(evidence, newest.group_id)
    members = evidence.members(newest.group_id)
    reached = {r for r, rows in by_rank.items() if any(one.seq >= newest.seq for one in rows)}
    return newest if members <= reached else None


def left_behind_in(rank: int, evidence: Evidence) -> Entered | None:
    """The oldest open collective of a rank of which another member stands at a later one."""
    behind = []
    for group_id in evidence.entered:
        open_by_rank = {
            member: open_of(rows) for member, rows in collectives_of(evidence, group_id).items()
        }
        own = open_by_rank.get(rank)
        if own is not None and any(one and one.seq > own.seq for one in open_by_rank.values()):
            behind.append(own)
    return min(behind, key=lambda one: one.enqueue_ns, default=None)
