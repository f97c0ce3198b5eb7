"""Who has posted which request: the open collectives and messages of each process group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from diagnosis.stuck.evidence import WAITS, Entered, Evidence
from diagnosis.stuck.places import collectives_of, newest_done
from diagnosis.stuck.text import named
from diagnosis.stuck.waiting import lacks_other_half, other_halves

MOST_REQUESTS = 60
"""Rows of the table: those that somebody has not posted first, then the oldest."""


@dataclass(frozen=True)
class Request:
    """A collective of a group, or a message, that at least one rank has posted and not completed.

    `posted`, `not_posted` and `unknown` together are its ranks; of the last it was not recorded how
    far they are. `since_ns`: when the first rank posted it, Unix ns.
    """

    group_id: int
    what: str
    posted: tuple[int, ...]
    not_posted: tuple[int, ...]
    unknown: tuple[int, ...]
    since_ns: int


def requests_of(evidence: Evidence) -> tuple[Request, ...]:
    """All open requests, those first that a rank has not posted."""
    requests = [
        request
        for group_id in evidence.entered
        for request in (*_collectives(evidence, group_id), *_messages(evidence, group_id))
    ]
    return tuple(sorted(requests, key=lambda one: (not one.not_posted, one.since_ns)))


def request_rows(evidence: Evidence) -> tuple[dict[str, Any], ...]:
    """Plain values of the table; `for_s`: up to the last look, None where nobody looked."""
    at_ns = evidence.at_ns
    return tuple(
        {
            "group": evidence.name_of(one.group_id),
            "request": one.what,
            "posted": named(one.posted),
            "not_posted": named(one.not_posted),
            "unknown": named(one.unknown),
            "for_s": None if at_ns is None else round(max(at_ns - one.since_ns, 0) / 1e9, 1),
        }
        for one in requests_of(evidence)[:MOST_REQUESTS]
    )


def _collectives(evidence: Evidence, group_id: int) -> Iterable[Request]:
    """One request for each number that a member stands in."""
    by_rank = {rank: rows for rank, rows in collectives_of(evidence, group_id).items() if rows}
    open_by_seq: dict[int, list[Entered]] = {}
    for rows in by_rank.values():
        done = newest_done(rows)
        for one in rows:
            if one.state == WAITS and one.seq > done and one.is_numbered:
                open_by_seq.setdefault(one.seq, []).append(one)
    for seq, standing in open_by_seq.items():
        members = evidence.members(group_id)
        posted = {rank for rank, rows in by_rank.items() if max(e.seq for e in rows) >= seq}
        others = members - posted
        known = {rank for rank in others if evidence.is_known(rank)}
        ops = "/".join(sorted({one.op for one in standing}))
        yield Request(
            group_id,
            f"{ops} {seq:,}",
            tuple(sorted(posted)),
            tuple(sorted(known)),
            tuple(sorted(others - known)),
            min(one.enqueue_ns for one in standing),
        )


def _messages(evidence: Evidence, group_id: int) -> Iterable[Request]:
    """Sends and receives, each with its other side."""
    by_rank = evidence.entered[group_id]
    open_sides: dict[tuple[int, int, int, int], list[Entered]] = {}
    for rank, rows in by_rank.items():
        for one in rows:
            if one.is_message and one.state == WAITS and one.peer >= 0:
                ends = (rank, one.peer) if one.op == "send" else (one.peer, rank)
                open_sides.setdefault((*ends, one.tag, one.seq), []).append(one)
    for (source, target, tag, seq), sides in open_sides.items():
        one, of_peer = sides[0], by_rank.get(sides[0].peer, ())
        posted = {side.rank for side in sides}
        if any(half.is_numbered and half.seq >= seq for half in other_halves(one, of_peer)):
            posted.add(one.peer)  # it went on, or waits for what comes next
        rest = {source, target} - posted
        lacks = one.is_numbered and lacks_other_half(one, of_peer, evidence)
        number = f" {seq:,}" if one.is_numbered else ""
        with_tag = f", tag {tag}" if tag > 0 else ""
        yield Request(
            group_id,
            f"message{number} from rank {source} to rank {target}{with_tag}",
            tuple(sorted(posted)),
            tuple(sorted(rest)) if lacks else (),
            () if lacks else tuple(sorted(rest)),
            min(side.enqueue_ns for side in sides),
        )
