"""Where spans are drawn in a trace: threads on which nothing crosses, and arrows between ranks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_OPEN = 100_000
"""Collectives of which members are still awaited; more are forgotten, oldest first."""


class Lane(NamedTuple):
    """A thread of the trace; `is_new`: it has not been named yet."""

    tid: int
    label: str
    is_new: bool


@dataclass
class _Rank:
    next_tid: int
    lanes: dict[str, list[tuple[int, list[int]]]] = field(default_factory=dict)
    """by track: tid, and the ends of the spans that are open"""


class Lanes:
    """Threads of spans that come in order of time, longer ones first.

    Viewers drop what overlaps on a thread without being nested (kernels of one stream do), so such
    a span goes to a second thread of its track.
    """

    def __init__(self, first_tid: int) -> None:
        self._first_tid = first_tid
        self._ranks: dict[int, _Rank] = {}

    def place(self, rank: int, track: str, begin_ns: int, end_ns: int) -> Lane:
        """The thread for a span."""
        own = self._ranks.setdefault(rank, _Rank(self._first_tid))
        lanes = own.lanes.setdefault(track, [])
        for number, (tid, open_ends) in enumerate(lanes):
            while open_ends and open_ends[-1] <= begin_ns:
                open_ends.pop()
            if not open_ends or end_ns <= open_ends[-1]:
                open_ends.append(end_ns)
                return Lane(tid, _label(track, number), False)
        tid, own.next_tid = own.next_tid, own.next_tid + 1
        lanes.append((tid, [end_ns]))
        return Lane(tid, _label(track, len(lanes) - 1), True)


def _label(track: str, number: int) -> str:
    return f"{track} (overlapping {number})" if number else track


class Arrow(NamedTuple):
    """One flow event: `phase` s, t or f."""

    phase: str
    number: int
    rank: int
    tid: int
    at_ns: int


@dataclass
class _Instance:
    rank: int
    tid: int
    at_ns: int
    number: int = 0
    """0 until a second member came"""
    members: set[int] = field(default_factory=set)


class Flows:
    """Arrows through the members of each collective, and from sends to receives.

    Members come in order of time; an instance that only one member shows gets no arrow.
    """

    def __init__(self, group_sizes: Mapping[int, int]) -> None:
        self._sizes = group_sizes
        self._open: OrderedDict[tuple[int, ...], _Instance] = OrderedDict()
        self._last_number = 0

    def of(self, row: Mapping[str, Any], tid: int, at_ns: int) -> Iterator[Arrow]:
        """The arrows that can be drawn now that this span came."""
        key = _instance_of(row)
        if key is None:
            return
        rank = row["rank"]
        known = self._open.get(key)
        if known is None or rank in known.members:
            self._open[key] = _Instance(rank, tid, at_ns, members={rank})
            self._open.move_to_end(key)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return
        known.members.add(rank)
        if not known.number:
            self._last_number += 1
            known.number = self._last_number
            yield Arrow("s", known.number, known.rank, known.tid, known.at_ns)
        is_last = len(known.members) >= (2 if len(key) > 2 else self._sizes.get(key[0], 1 << 62))
        yield Arrow("f" if is_last else "t", known.number, rank, tid, at_ns)
        if is_last:
            del self._open[key]


def _instance_of(row: Mapping[str, Any]) -> tuple[int, ...] | None:
    """What all members of a collective or both ends of a message share; None for other spans."""
    group_id, seq, peer, rank = row["group_id"], row["coll_seq"], row["peer"], row["rank"]
    if group_id == 0 or seq < 0:
        return None
    if peer < 0:
        return group_id, seq
    name = row["name"].lower()
    if "send" in name:
        return group_id, seq, rank, peer
    if "recv" in name:
        return group_id, seq, peer, rank
    return None
