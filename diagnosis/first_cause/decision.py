"""Which anchor is the first cause.

The earliest of the anchors is taken. Where their times overlap, a fault of hardware goes before an
exception, that before memory, that before a timeout; among equals that of the rank whose process
ended first. Anchors of one class that cannot be ordered and differ name nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from diagnosis.first_cause.anchors import ZONE_NS, Episode
from diagnosis.first_cause.blame import named
from diagnosis.first_cause.cause import FirstCause, World
from diagnosis.first_cause.exits import exits_in
from diagnosis.first_cause.facts import introduction_of, signature_of
from diagnosis.first_cause.lines import MOST_BETWEEN, UNKNOWN_CLOCK_NS, Line
from trace_hooks.log_text.labels import EXCEPTION

TOGETHER_NS = 60 * 10**9
"""Equal exceptions within this time are one."""

AFTER_ECHO_NS = 10 * 10**9
"""An anchor that comes so much later than an echo elsewhere may be an echo itself."""

_CLASSES = {"hardware": 0, "preemption": 0, "memory": 2, "timeout": 3, "launcher": 4}


def first_cause(episode: Episode, world: World) -> FirstCause | None:
    """The cause among the anchors of an episode; None where there are none."""
    if not episode.anchors:
        return None
    first = _first(episode.anchors)
    ended = rank_that_ended_first(episode.all_lines)
    chosen = min(first, key=lambda line: _preference(line, ended))
    equal = _equal(chosen, episode.anchors)
    if (rank := _only_rank_that_failed(chosen, episode)) >= 0:
        chosen = replace(chosen, rank=rank)
        equal = (chosen,)
    others = [line for line in first if _class(line) == _class(chosen) and line not in equal]
    if chosen.name != EXCEPTION:
        others = [line for line in others if line.name != chosen.name]
    is_by_end = bool(others) and ended >= 0 and chosen.rank == ended
    rivals = tuple(line for line in others if line.rank != chosen.rank or chosen.rank < 0)
    sure = _confidence(chosen, () if is_by_end else rivals, episode)
    sure = "medium" if is_by_end and sure == "high" else sure
    return named(chosen, equal, rivals, episode, world, sure, names_despite_rivals=is_by_end)


def logged_cause(episode: Episode, world: World) -> FirstCause | None:
    """An exception that its program caught and logged, where others failed as well."""
    if not episode.echoes:
        return None
    cause = first_cause(replace(episode, anchors=episode.logged), world)
    return replace(cause, confidence="low") if cause else None


def doubtful_cause(episode: Episode, world: World) -> FirstCause | None:
    """The last error of the rank that ended first, though its program meant to go on after it."""
    ended = rank_that_ended_first(episode.all_lines)
    last = [line for line in episode.doubtful if line.rank == ended >= 0][-1:]
    return named(last[0], tuple(last), (), episode, world, "low") if last else None


def rank_that_ended_first(lines: Sequence[Line]) -> int:
    """Of the ranks that ended by themselves the first, as launchers saw it; -1 unknown."""
    ends = [
        line
        for line in lines
        if line.rank >= 0 and any(end.is_own and end.code != -6 for end in exits_in(line.text))
    ]
    first = {line.rank for line in ends if not any(_ended_before(other, line) for other in ends)}
    return next(iter(first)) if len(first) == 1 else -1


def _only_rank_that_failed(chosen: Line, episode: Episode) -> int:
    """Of the only cause in all logs, which names no rank, the one rank that ended by itself; -1
    where there are several. An exception of Python ends its process with a code, no signal.
    """
    is_of_rank = chosen.label is not None and chosen.label.rank_is_known
    if chosen.rank >= 0 or chosen.is_of_kernel or not is_of_rank or not _is_one(episode.anchors):
        return -1
    ends = [
        (end.rank if end.rank >= 0 else line.rank, end.code)
        for line in episode.all_lines
        if line is not chosen and "srun" not in line.text
        if not (line.file == chosen.file and line.number < chosen.number)
        for end in exits_in(line.text)
        if end.is_own
    ]
    is_of_python = introduction_of(chosen.text, "") is not None
    ranks = {rank for rank, code in ends if not is_of_python or code > 0}
    return next(iter(ranks)) if len(ranks) == 1 and len({rank for rank, _ in ends}) == 1 else -1


def _is_one(anchors: Sequence[Line]) -> bool:
    """Whether lines are of one event: one line, or a few next to each other with one meaning."""
    first = min(anchors, key=lambda line: line.number)
    return all(
        (line.file, line.name, line.rank) == (first.file, first.name, first.rank)
        and line.number - first.number <= MOST_BETWEEN
        and (line is first or "Traceback" not in line.text)
        for line in anchors
    )


def _ended_before(end: Line, other: Line) -> bool:
    """Launchers write ends into one file in their order."""
    if end.file and end.file == other.file:
        return end.number < other.number
    return end.is_before(other)


def _class(line: Line) -> int:
    return _CLASSES.get(line.label.category, 1) if line.label else 5


def _preference(line: Line, ended: int) -> tuple[int, bool, bool, float]:
    is_of_ended = ended >= 0 and line.rank == ended
    return _class(line), not is_of_ended, line.name == EXCEPTION, line.begin_ns


def _first(anchors: Sequence[Line]) -> list[Line]:
    """Those before which no other certainly stands."""
    return [line for line in anchors if not any(other.is_before(line) for other in anchors)]


def _equal(chosen: Line, anchors: Sequence[Line]) -> tuple[Line, ...]:
    """Lines that say the same at about the same time, the chosen one among them."""
    signature = signature_of(chosen.text)
    return tuple(
        line
        for line in anchors
        if line.name == chosen.name
        and (line.name != EXCEPTION or signature_of(line.text) == signature)
        and line.begin_ns <= chosen.end_ns + TOGETHER_NS + chosen.err_ns
    )


def _confidence(chosen: Line, rivals: Sequence[Line], episode: Episode) -> str:
    if rivals or chosen.err_ns >= ZONE_NS or _is_late(chosen, episode):
        return "low"
    has_echo = bool(episode.echoes or episode.weak)
    is_fatal = chosen.level in ("error", "fatal") or chosen.name != EXCEPTION
    return "high" if has_echo and is_fatal and chosen.role == "initiating" else "medium"


def _is_late(chosen: Line, episode: Episode) -> bool:
    """Whether other ranks had lost a connection long before."""
    lost = [line.end_ns for line in episode.echoes if line.role == "cascade"]
    known = [at_ns for at_ns in lost if math.isfinite(at_ns)]
    return chosen.begin_ns > min(known, default=math.inf) + AFTER_ECHO_NS + UNKNOWN_CLOCK_NS
