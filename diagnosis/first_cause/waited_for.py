"""Where ranks only timed out: which rank they waited for, and what that one did meanwhile.

"Rank 0 alone": while the others wait in a collective, one rank tokenizes, evaluates or saves for
longer than the timeout, or enters a collective that the others do not.

Source: public threads with this cause (LlamaFactory 2424, transformers 17106, finetrainers 114).
Known false positives: a rank that is late for another reason while its log shows an earlier
progress bar, hence only lines since the wait began count; a rank whose launcher ended it before it
could time out, hence of silent ranks only a single one is named.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from diagnosis.first_cause.anchors import Episode
from diagnosis.first_cause.cause import FEW, FirstCause, World
from diagnosis.first_cause.facts import group_of, last_enqueued, rank_asked, timeout_ms, work_of
from diagnosis.first_cause.lines import UNKNOWN_CLOCK_NS, Line

BUSY = ("preparing_data", "evaluating", "saving", "progress")

FEWEST = 3
"""So many ranks have to wait before one is distinguished from them."""

MANY = 7
"""With so many that timed out, the launcher hardly ended just the last one before it could."""

NEAR_SEQ = 10
"""Collectives whose numbers are further apart are of different groups, though no line says so."""

_DOING = {
    "preparing_data": "prepared data",
    "evaluating": "evaluated",
    "saving": "saved",
    "progress": "was busy",
}


@dataclass(frozen=True)
class _Missing:
    """Ranks that had not entered what the others waited in, and how that is known."""

    ranks: frozenset[int]
    why: str
    confidence: str


def waited_for(episode: Episode, world: World) -> FirstCause | None:
    """The rank that the others waited for, where their timeouts tell it; None otherwise."""
    waited = _waited(episode)
    if not waited:
        return None
    missing = _behind(episode) or _silent(waited, world) or _elsewhere(waited)
    asked = {rank_asked(line.text) for line in waited.values()} - {-1}
    among = missing.ranks if missing else asked or set(world.hosts) - set(waited)
    busy = _busy(episode, waited, among) or _busy_in_shared_log(episode, waited)
    if busy is not None:
        return busy
    if missing is None or not missing.ranks:
        return None
    first = min(waited.values(), key=lambda line: line.begin_ns)
    ranks = tuple(sorted(missing.ranks))
    return FirstCause(first, ranks, (), missing.confidence, why=missing.why)


def _waited(episode: Episode) -> dict[int, Line]:
    """The first line with which each rank timed out."""
    found: dict[int, Line] = {}
    for line in episode.weak:
        if line.name == "watchdog_timeout" and line.rank >= 0:
            found.setdefault(line.rank, line)
    return found


def _behind(episode: Episode) -> _Missing | None:
    """Ranks that had entered fewer collectives of a group than its other members."""
    entered: dict[str, dict[int, int]] = defaultdict(dict)
    for line in (*episode.weak, *episode.echoes):
        number = last_enqueued(line.text)
        if number is not None and line.rank >= 0:
            of_group = entered[group_of(line.text)]
            of_group[line.rank] = max(of_group.get(line.rank, -1), number)
    found = set()
    for of_group in entered.values():
        most = max(of_group.values())
        behind = frozenset(rank for rank, number in of_group.items() if number < most)
        if len(of_group) >= FEWEST and behind and len(behind) <= FEW * len(of_group):
            found.add(behind)
    if len(found) != 1:
        return None
    why = "fewer collectives of the group were entered there than by the others"
    return _Missing(next(iter(found)), why, "medium")


def _silent(waited: Mapping[int, Line], world: World) -> _Missing | None:
    """The one rank that left a log and did not time out while all others did."""
    silent = frozenset(set(world.hosts) - set(waited))
    if len(silent) != 1 or len(waited) < FEWEST or world.num_ranks != len(waited) + 1:
        return None
    sure = "medium" if len(waited) >= MANY else "low"
    return _Missing(
        silent, "it did not time out itself, so it had not entered the collective", sure
    )


def _elsewhere(waited: Mapping[int, Line]) -> _Missing | None:
    """The one rank that waited in another collective of the same group."""
    by_work: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for rank, line in waited.items():
        work = work_of(line.text)
        if work is not None:
            by_work[work.group, work.seq, work.op].add(rank)
    if len(by_work) != 2 or len({group for group, _, _ in by_work}) != 1:
        return None
    (_, one, _), (_, other, _) = by_work
    if abs(one - other) > NEAR_SEQ:
        return None
    fewest, most = sorted(by_work.values(), key=len)
    if len(fewest) != 1 or len(most) < FEWEST:
        return None
    return _Missing(frozenset(fewest), "it waited in another collective than the others", "low")


def _busy(
    episode: Episode, waited: Mapping[int, Line], among: Collection[int]
) -> FirstCause | None:
    """A rank whose newest line since the wait began shows that it did something alone."""
    began = [line.begin_ns - timeout_ms(line.text) * 1e6 for line in waited.values()]
    since_ns = min(filter(math.isfinite, began), default=-math.inf) - 2 * UNKNOWN_CLOCK_NS
    doing: dict[int, Line] = {}
    for line in _by_time(episode.context):
        if line.name in BUSY and line.rank in among and line.end_ns >= since_ns:
            held = doing.get(line.rank)
            if held is None or held.name == "progress" or line.name != "progress":
                doing[line.rank] = line
    if len(doing) != 1:
        return None
    ((rank, line),) = doing.items()
    if line.name == "progress" and rank in waited:
        return None
    return _alone(rank, line, waited, "medium")


def _busy_in_shared_log(episode: Episode, waited: Mapping[int, Line]) -> FirstCause | None:
    """The same where lines of all ranks share a file and do not say whose they are: rank 0, if it
    did not time out.
    """
    if 0 in waited:
        return None
    first = min(waited.values(), key=lambda line: (line.begin_ns, line.number))
    before = [
        line
        for line in episode.context
        if line.rank < 0 and line.file == first.file and line.number <= first.number
        if line.name in BUSY and line.name != "progress"
    ]
    if not before:
        return None
    return _alone(0, max(before, key=lambda line: line.number), waited, "low")


def _alone(rank: int, line: Line, waited: Mapping[int, Line], confidence: str) -> FirstCause | None:
    others = [report for report in waited.values() if report.rank != rank]
    if not others:
        return None
    longest_ms = max(timeout_ms(report.text) for report in others)
    limit = f" longer than the timeout of {longest_ms / 1e3:,.0f} s" if longest_ms else ""
    why = f"rank {rank} alone {_DOING[line.name]}{limit} while the others waited"
    return FirstCause(line, (rank,), (), confidence, why=why)


def _by_time(lines: Sequence[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (line.begin_ns, line.number))
