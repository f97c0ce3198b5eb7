"""What several polls of NCCL's RAS say of a job: which ranks launch nothing, and who is behind.

RAS counts launches, not completions, and no messages. A communicator stands still if none of its
members launched anything, in any communicator, between two polls at least MIN_STILL_NS apart. All
its members have then come at least as far as the one with the fewest launches, and no further than
into the next: those with more wait for it. RAS's own report points at the members with more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingest.readers.nccl_ras.polls import Communicator, Member, Poll, Process
from ingest.readers.tables.torch_names import op_name

MIN_STILL_NS = 10 * 10**9
"""A poll may take as long as that by itself."""


@dataclass(frozen=True)
class Stand:
    """Where a process stands in a communicator: launch number `seq`; `waits`: it is in it."""

    process: Process
    seq: int
    op: str
    waits: bool


def launches_of(poll: Poll) -> dict[Process, dict[tuple[str, str], int]]:
    """Launches of each process that answers, by communicator and operation."""
    found: dict[Process, dict[tuple[str, str], int]] = {}
    for communicator in poll.communicators.values():
        for member in communicator.members.values():
            if member.counts:
                own = found.setdefault(member.process, {})
                own |= {(communicator.name, op): n for op, n in member.counts.items()}
    return found


def still_since(polls: Sequence[Poll]) -> dict[Process, int]:
    """When each process that answers the last poll was first seen with these launches, ns."""
    if not polls:
        return {}
    last = launches_of(polls[-1])
    since = dict.fromkeys(last, polls[-1].ts_ns)
    moved: set[Process] = set()
    for poll in reversed(polls[:-1]):
        before = launches_of(poll)
        for process, launches in last.items():
            if process not in moved and before.get(process) == launches:
                since[process] = poll.ts_ns
            else:
                moved.add(process)
    return since


def stands_of(communicator: Communicator, since: Mapping[Process, int], at_ns: int) -> list[Stand]:
    """Where the members stand; empty where the communicator does not stand still, or is even."""
    members = list(communicator.members.values())
    answering = [one for one in members if one.counts]
    missing = [one for one in members if one.state]
    if not answering or any(one.is_leaving for one in answering):
        return []
    if len(answering) + len(missing) < len(members):
        return []  # a process that answers, but not for this communicator: it has left it
    if any(at_ns - since.get(one.process, at_ns) < MIN_STILL_NS for one in answering):
        return []
    least = min(one.total for one in answering)
    if missing:
        return [Stand(one.process, least, "", True) for one in answering]
    if all(one.total == least for one in answering):
        return []
    op = _next_op(answering, least)
    return [
        Stand(one.process, least + 1, op, True)
        if one.total > least
        else Stand(one.process, least, "", False)
        for one in answering
    ]


def _next_op(members: Sequence[Member], least: int) -> str:
    """What the others have launched next, where only one operation can be meant; '' unknown."""
    behind = next(one for one in members if one.total == least)
    nearest = min((one for one in members if one.total > least), key=lambda one: one.total)
    differ = [op for op, n in nearest.counts.items() if n != behind.counts.get(op, 0)]
    return (op_name(differ[0]) or differ[0].lower()) if len(differ) == 1 else ""
