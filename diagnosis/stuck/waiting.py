"""Who waits for whom: collectives that some members of a group have entered and others have not.

Each member stands at the oldest collective that it has entered and not been seen to complete. Those
that stand furthest wait: for members that have not entered that collective, and for those that
stand at an earlier one. A receive waits for the sender that has not sent, a send that blocks for
the receiver. A rank that is waited for
may itself wait in another group; those that wait for nobody are the roots, where it began. Members
of which nothing is known (their dump is missing) are not said to be absent, and a rank that may
wait for one of them is no root (diagnosis/stuck/unseen.py).

Source: the rule is ours; it follows the order of enqueuing, as Mycroft (2509.03018) does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from diagnosis.stuck.evidence import WAITS, Entered, Evidence
from diagnosis.stuck.places import collectives_of, open_of
from diagnosis.stuck.stacks import FIRST_GROUP, makes_first_group, makes_group
from diagnosis.stuck.unseen import may_wait

STARTS_MS = 15_000.0
"""Ranks of a job may come to its first group so far apart."""


@dataclass(frozen=True)
class Wait:
    """Ranks that wait in one instance for others. `since_ns`: the first of them entered it.
    `seq`: -1 of what has no number. `unseen`: members of which nothing is known.
    """

    group_id: int
    seq: int
    op: str
    waiting: tuple[int, ...]
    awaited: tuple[int, ...]
    since_ns: int
    is_message: bool = False
    unseen: tuple[int, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """All waits of a job, the ranks at their roots, and the cycles where there is no root.

    `complete`: collectives and messages that every member has entered and none has completed.
    `unclear`: collectives that all members have entered of which anything is known.
    """

    waits: tuple[Wait, ...]
    roots: tuple[int, ...]
    cycles: tuple[tuple[int, ...], ...]
    complete: tuple[Wait, ...]
    unclear: tuple[Wait, ...] = ()

    @property
    def waiting_ranks(self) -> tuple[int, ...]:
        """Everybody who waits for somebody."""
        return tuple(sorted({rank for wait in self.waits for rank in wait.waiting}))

    def first(self) -> Wait | None:
        """The wait that began first among those for a root or within a cycle."""
        blamed = set(self.roots) or {rank for cycle in self.cycles for rank in cycle}
        direct = [wait for wait in self.waits if blamed & set(wait.awaited)]
        return min(direct, key=lambda wait: wait.since_ns, default=None)

    def shown_first(self) -> Wait | None:
        """What to say first of a stuck job: a wait for a root, else one whose end is not known."""
        first = self.first()
        if first is not None:
            return first
        kinds = (self.unclear, self.waits, self.complete)
        return next((min(w, key=lambda wait: wait.since_ns) for w in kinds if w), None)


def waiting_of(evidence: Evidence) -> Waiting:
    """The waits of a job at the last look."""
    waits: list[Wait] = []
    complete: list[Wait] = []
    unclear: list[Wait] = []
    for group_id in evidence.entered:
        wait = _in_collectives(evidence, group_id)
        if wait is not None:
            (waits if wait.awaited else unclear if wait.unseen else complete).append(wait)
        waits += _in_messages(evidence, group_id)
        complete += _complete_messages(evidence, group_id)
    for made in _in_new_groups(evidence):
        (waits if made.awaited else unclear).append(made)
    edges = edges_of(waits)
    awaited = {rank for ranks in edges.values() for rank in ranks}
    perhaps = may_wait(evidence) if awaited else frozenset()
    roots = tuple(sorted(rank for rank in awaited - perhaps if not edges.get(rank)))
    cycles = () if roots else tuple(cycles_of(edges))
    order = tuple(sorted(waits, key=lambda wait: wait.since_ns))
    return Waiting(order, roots, cycles, tuple(complete), tuple(unclear))


def edges_of(waits: Iterable[Wait]) -> dict[int, set[int]]:
    """Whom each rank waits for."""
    edges: dict[int, set[int]] = {}
    for wait in waits:
        for rank in wait.waiting:
            edges.setdefault(rank, set()).update(set(wait.awaited) - {rank})
    return edges


def _in_collectives(evidence: Evidence, group_id: int) -> Wait | None:
    """The members that stand furthest in a group, and those that are not there; None: no wait."""
    by_rank = collectives_of(evidence, group_id)
    stands = {rank: here for rank, rows in by_rank.items() if (here := open_of(rows))}
    if not stands:
        return None
    front = max(one.seq for one in stands.values())
    there = sorted(rank for rank, one in stands.items() if one.seq == front)
    members = evidence.members(group_id)
    behind = sorted(r for r in members - set(there) if _is_behind(by_rank.get(r, ()), front))
    awaited = [rank for rank in behind if evidence.is_known(rank) or _stands(stands, rank, front)]
    unseen = tuple(rank for rank in behind if rank not in awaited)
    if not awaited and len(there) + len(unseen) < len(members):
        return None  # the others have completed it: its end is only not seen here
    since_ns = min(stands[rank].enqueue_ns for rank in there)
    op = stands[there[0]].op
    return Wait(group_id, front, op, tuple(there), tuple(awaited), since_ns, unseen=unseen)


def _is_behind(rows: tuple[Entered, ...], front: int) -> bool:
    """Whether a member has not entered the front, or still stands at an earlier collective."""
    stands = open_of(rows)
    newest = max((one.seq for one in rows), default=-1)
    return newest < front or (stands is not None and stands.seq < front)


def _stands(stands: Mapping[int, Entered], rank: int, front: int) -> bool:
    """Whether a rank was seen to stand at an earlier collective."""
    return rank in stands and stands[rank].seq < front


def _in_messages(evidence: Evidence, group_id: int) -> list[Wait]:
    """Receives whose sender has not sent, and sends that block, of peers that are known.

    A send is taken to block where the rank has entered nothing after it.
    """
    by_rank = evidence.entered[group_id]
    waits = []
    for rank, rows in by_rank.items():
        newest_ns = _newest_ns(evidence, rank)
        for one in rows:
            if one.state != WAITS or one.peer < 0 or not one.is_numbered:
                continue
            if not _blocks(one, newest_ns):
                continue
            if lacks_other_half(one, by_rank.get(one.peer, ()), evidence):
                waits.append(
                    Wait(group_id, one.seq, one.op, (rank,), (one.peer,), one.enqueue_ns, True)
                )
                break
    return waits


def _complete_messages(evidence: Evidence, group_id: int) -> list[Wait]:
    """Messages whose two ranks are both in them."""
    by_rank = evidence.entered[group_id]
    messages = [one for rows in by_rank.values() for one in rows if one.peer >= 0]
    received = {
        (one.peer, one.rank, one.tag, one.seq): one
        for one in messages
        if one.op == "recv" and one.state == WAITS
    }
    return [
        Wait(group_id, one.seq, "send", (one.rank, one.peer), (), since_ns, True)
        for one in messages
        if one.op == "send" and one.state == WAITS
        if (other := received.get((one.rank, one.peer, one.tag, one.seq))) is not None
        if (since_ns := max(one.enqueue_ns, other.enqueue_ns))
    ]


def _blocks(one: Entered, newest_ns: int) -> bool:
    return one.op == "recv" or (one.op == "send" and one.enqueue_ns >= newest_ns)


def _newest_ns(evidence: Evidence, rank: int) -> int:
    """When a rank last entered something, in any group."""
    rows = (one for by_rank in evidence.entered.values() for one in by_rank.get(rank, ()))
    return max((one.enqueue_ns for one in rows), default=0)


def other_halves(one: Entered, of_peer: Iterable[Entered]) -> list[Entered]:
    """What the peer of a message has entered of its kind on the other side, with the same tag.

    What is neither sent nor received, as some libraries name it, has the same name on both sides.
    """
    other = {"send": "recv", "recv": "send"}.get(one.op, one.op)
    return [
        half for half in of_peer if (half.op, half.peer, half.tag) == (other, one.rank, one.tag)
    ]


def lacks_other_half(one: Entered, of_peer: Iterable[Entered], evidence: Evidence) -> bool:
    """Whether the peer of a message with a number is known not to have entered its other half."""
    halves = other_halves(one, of_peer)
    known = one.peer in evidence.looks or bool(halves)
    return known and all(half.is_numbered and half.seq < one.seq for half in halves)


def _in_new_groups(evidence: Evidence) -> list[Wait]:
    """Ranks that make a process group, which takes all ranks, and those that do not.

    Before the first group of a job, ranks of which nothing is known may be on their way; and ranks
    start at different times, so that waiting there is worth a word after STARTS_MS only.
    """
    looks = {r: look for r, look in evidence.looks.items() if look.stack and look.is_timed}
    making = sorted(rank for rank, look in looks.items() if makes_group(look.stack))
    if not making:
        return []
    quiet_ms = min(looks[rank].quiet_ms or 0.0 for rank in making)
    since_ns = (evidence.at_ns or 0) - int(quiet_ms * 1e6)
    others = tuple(sorted(evidence.looks.keys() - set(making)))
    if any(makes_first_group(looks[rank].stack) for rank in making):
        if quiet_ms < STARTS_MS:
            return []
        unseen = tuple(sorted(set(range(evidence.world_size)) - evidence.looks.keys()))
        wait = Wait(0, -1, FIRST_GROUP, tuple(making), others, since_ns, unseen=unseen)
        return [wait] if others or unseen else []
    if not others or len(others) >= len(making):
        return []
    return [Wait(0, -1, "new_group", tuple(making), others, since_ns)]


def cycles_of(edges: Mapping[int, set[int]]) -> list[tuple[int, ...]]:
    """Shortest cycles, one per set of ranks that wait for each other; the smallest rank first."""
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for start in sorted(edges):
        path = _way_back(edges, start)
        if path and not any(set(path) & members for members in found):
            found[frozenset(path)] = path
    return list(found.values())


def _way_back(edges: Mapping[int, set[int]], start: int) -> tuple[int, ...]:
    """The shortest way from a rank along its waits back to itself; () none."""
    ways: list[tuple[int, ...]] = [(start,)]
    seen: set[int] = set()
    while ways:
        further = []
        for way in ways:
            for rank in sorted(edges.get(way[-1], ())):
                if rank == start:
                    return way
                if rank not in seen:
                    seen.add(rank)
                    further.append((*way, rank))
        ways = further
    return ()
