"""Where ranks only timed out: which rank they waited for, and what that one did meanwhile.

"Rank 0 alone": while the others wait in a collective, one rank tokenizes, evaluates or saves for
longer than the timeout, or enters a collective that the others do not.

Source: public threads with this cause (LlamaFactory 2424, transformers 17106, finetrainers 114).
Known false positives: a rank that is late for another reason while its log shows an earlier
progress bar; hence only lines since the wait began count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnosis.first_cause.anchors import Episode
from diagnosis.first_cause.decision import FEW, FirstCause, World
from diagnosis.first_cause.facts import last_enqueued, timeout_ms, work_of
from diagnosis.first_cause.lines import UNKNOWN_CLOCK_NS, Line

BUSY = ("preparing_data", "evaluating", "saving", "progress")

_DOING = {
    "preparing_data": "prepared data",
    "evaluating": "evaluated",
    "saving": "saved",
    "progress": "was busy",
}


@dataclass(frozen=True)
class _Reports:
    """What ranks said when they timed out: their lines, and the number they entered last."""

    lines: Mapping[int, Line]
    entered: Mapping[int, int]
    began_ns: float


def waited_for(episode: Episode, world: World) -> FirstCause | None:
    """The rank that the others waited for, where their timeouts tell it; None otherwise."""
    reports = _reports(episode)
    if not reports.lines:
        return None
    missing = _missing(reports, world)
    busy = _busy(episode, reports, missing or set(world.hosts) - set(reports.lines))
    if busy is not None:
        return busy
    if not missing or len(missing) > max(1, FEW * world.num_ranks):
        return None
    first = min(reports.lines.values(), key=lambda line: line.begin_ns)
    why = "it did not time out itself and had not entered the collective"
    return FirstCause(first, tuple(sorted(missing)), (), "medium", why=why)


def _reports(episode: Episode) -> _Reports:
    lines: dict[int, Line] = {}
    entered: dict[int, int] = {}
    for line in (*episode.weak, *episode.echoes):
        if line.rank < 0:
            continue
        number = last_enqueued(line.text)
        if number is not None:
            entered[line.rank] = max(entered.get(line.rank, -1), number)
        if line.name == "watchdog_timeout":
            lines.setdefault(line.rank, line)
    began = [line.begin_ns - timeout_ms(line.text) * 1e6 for line in lines.values()]
    return _Reports(lines, entered, min(filter(math.isfinite, began), default=-math.inf))


def _missing(reports: _Reports, world: World) -> set[int]:
    """Ranks that entered fewer collectives than the others; else those that did not time out
    although their logs are there.
    """
    if len(reports.entered) > 2:
        most = max(reports.entered.values())
        behind = {rank for rank, number in reports.entered.items() if number < most}
        if behind and len(behind) <= FEW * len(reports.entered):
            return behind
    works = {rank: work_of(line.text) for rank, line in reports.lines.items()}
    by_op: dict[tuple[int, str], set[int]] = defaultdict(set)
    for rank, work in works.items():
        if work is not None:
            by_op[work.seq, work.op].add(rank)
    silent = set(world.hosts) - set(reports.lines)
    if 0 < len(silent) <= max(1, FEW * world.num_ranks) and len(reports.lines) >= 1:
        return silent
    if len(by_op) == 2 and len(works) > 2:
        fewest = min(by_op.values(), key=len)
        return fewest if len(fewest) == 1 else set()
    return set()


def _busy(episode: Episode, reports: _Reports, among: set[int]) -> FirstCause | None:
    """A rank whose newest line since the wait began shows that it did something alone."""
    since_ns = reports.began_ns - 2 * UNKNOWN_CLOCK_NS
    doing: dict[int, Line] = {}
    for line in _by_time(episode.context):
        if line.name in BUSY and line.rank in among and line.end_ns >= since_ns:
            held = doing.get(line.rank)
            if held is None or held.name == "progress" or line.name != "progress":
                doing[line.rank] = line
    if len(doing) != 1:
        return None
    ((rank, line),) = doing.items()
    others = [report for report in reports.lines.values() if report.rank != rank]
    if not others or (line.name == "progress" and rank in reports.lines):
        return None
    longest_ms = max(timeout_ms(report.text) for report in others)
    limit = f" longer than the timeout of {longest_ms / 1e3:,.0f} s" if longest_ms else ""
    why = f"rank {rank} alone {_DOING[line.name]}{limit} while the others waited"
    return FirstCause(line, (rank,), (), "medium", why=why)


def _by_time(lines: Sequence[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (line.begin_ns, line.number))
