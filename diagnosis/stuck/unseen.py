"""Ranks that may wait for something that no evidence shows, and are therefore not blamed.

Dumps of some ranks may be missing, cut off or overrun. A rank that stands in a collective may wait
for a member of which nothing is known, unless another member has completed that collective. A
message whose two sides count differently (its ring no longer goes back to the first one) may lack
its other half. Both only excuse: nobody is said to be waited for because of them.
"""

from __future__ import annotations

from diagnosis.stuck.evidence import WAITS, Entered, Evidence
from diagnosis.stuck.places import collectives_of, newest_done, open_of

_OF_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Nobody completes these before every member has entered them."""


def may_wait(evidence: Evidence) -> frozenset[int]:
    """Ranks that may wait for one of which nothing is known, or for a message."""
    found: set[int] = set()
    for group_id in evidence.entered:
        if any(not evidence.is_known(rank) for rank in evidence.members(group_id)):
            found |= _in_collectives(evidence, group_id)
    return frozenset(found | _in_messages(evidence))


def _in_collectives(evidence: Evidence, group_id: int) -> set[int]:
    """Ranks in a collective of which it is not known that the unknown members have entered it."""
    by_rank = collectives_of(evidence, group_id)
    stands = {rank: here for rank, rows in by_rank.items() if (here := open_of(rows))}
    done = max(map(newest_done, by_rank.values()), default=-1)
    done = max((done, *(one.seq - 1 for one in stands.values())))
    return {r for r, one in stands.items() if one.seq > done or not one.op.startswith(_OF_ALL)}


def _in_messages(evidence: Evidence) -> set[int]:
    """Ranks whose oldest open entry is a message that its other rank may not have entered."""
    opened: dict[int, list[Entered]] = {}
    for by_rank in evidence.entered.values():
        for rank, of_rank in by_rank.items():
            opened.setdefault(rank, []).extend(one for one in of_rank if one.state == WAITS)
    found = set()
    for rank, rows in opened.items():
        oldest = min(rows, key=lambda one: one.enqueue_ns, default=None)
        if oldest is None or not oldest.is_message or oldest.is_numbered:
            continue
        half = {"send": "recv", "recv": "send"}.get(oldest.op)
        own = [one for one in rows if (one.op, one.peer) == (oldest.op, oldest.peer)]
        others = [one for one in opened.get(oldest.peer, ()) if (one.op, one.peer) == (half, rank)]
        if len(own) > len(others):
            found.add(rank)
    return found
