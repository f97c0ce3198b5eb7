"""Ranks whose script has ended well while the other members of a group entered one more collective.

Uneven inputs end the loop of one rank sooner, or a branch returns. The others wait for it, or fail
as soon as its connections close, with errors that only blame the network. Few have to have left:
where most members have, what the others entered is one collective too many.
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnosis.stuck.evidence import Evidence
from diagnosis.stuck.places import collectives_of

FINISHED = "finished"


@dataclass(frozen=True)
class Left:
    """`ranks` have ended without entering `seq`, which `others`, all the rest, have entered."""

    group_id: int
    seq: int
    op: str
    ranks: tuple[int, ...]
    others: tuple[int, ...]


def left_early(evidence: Evidence) -> Left | None:
    """Of the first group in which ranks have left; None where none has."""
    found = (_in_group(group_id, evidence) for group_id in evidence.entered)
    return next((left for left in found if left is not None), None)


def _in_group(group_id: int, evidence: Evidence) -> Left | None:
    by_rank = collectives_of(evidence, group_id)
    newest = {rank: max(rows, key=lambda one: one.seq) for rank, rows in by_rank.items() if rows}
    members = evidence.members(group_id)
    if newest.keys() != members:
        return None  # of a member nothing is known
    ended = {rank for rank in members if _has_finished(rank, evidence)}
    others = sorted(members - ended)
    if not ended or 2 * len(ended) >= len(members):
        return None
    if not evidence.is_over and not all(_waits(rank, evidence) for rank in others):
        return None  # they may be about to end, too
    first = min((newest[rank] for rank in others), key=lambda one: one.seq)
    if any(newest[rank].seq >= first.seq for rank in ended):
        return None
    return Left(group_id, first.seq, first.op, tuple(sorted(ended)), tuple(others))


def _has_finished(rank: int, evidence: Evidence) -> bool:
    signs = evidence.signs.get(rank)
    return signs is not None and signs.status == FINISHED


def _waits(rank: int, evidence: Evidence) -> bool:
    look = evidence.looks.get(rank)
    return look is not None and look.was_seen_twice and not look.has_moved
