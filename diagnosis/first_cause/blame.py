"""Whom a first cause names: ranks, a host, or nobody.

The same exception on nearly all ranks names no rank; on all ranks of one host, the host. A failed
transfer names a host only where that one is an end of more of them than any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from diagnosis.first_cause.anchors import Episode, explained_by
from diagnosis.first_cause.cause import FEW, MOST_OF_JOB, FirstCause, World
from diagnosis.first_cause.facts import named_host, peer_address, ranks_passed_over
from diagnosis.first_cause.lines import Line


def named(
    chosen: Line,
    equal: tuple[Line, ...],
    rivals: tuple[Line, ...],
    episode: Episode,
    world: World,
    sure: str,
    *,
    names_despite_rivals: bool = False,
) -> FirstCause:
    """The cause that a line is, with whom it names. `sure`: the confidence of its place in time."""
    label = chosen.label
    cause = FirstCause(chosen, confidence=sure, equal=equal, rivals=rivals)
    if label is None or chosen.is_of_kernel or label.category == "hardware":
        return _of_machine(cause, episode, world)
    if not label.rank_is_known:
        return _of_machine(cause, episode, world)
    if label.category == "network":
        return _of_network(cause, world)
    if rivals and not names_despite_rivals:
        return cause if not _is_of_all(cause, world) else replace(cause, of_all=True)
    return _of_ranks(cause, world)


def _of_machine(cause: FirstCause, episode: Episode, world: World) -> FirstCause:
    """A line of a kernel or scheduler: its host, and the rank where the process is known."""
    line = cause.line
    passed = ranks_passed_over(line.text)
    if passed:
        return replace(cause, ranks=passed)
    host = named_host(line.text) or (line.host if line.stream != "scheduler" else None)
    knows_rank = line.label is None or line.label.rank_is_known
    if not knows_rank and not named_host(line.text) and not line.is_of_kernel:
        return replace(cause, of_all=True)
    same = cause.equal if line.label and line.label.category == "hardware" else ()
    hit = {other.rank for other in (*explained_by(line, episode.all_lines), *same, line)} - {-1}
    hit = {rank for rank in hit if host is None or world.host_of(rank) in (host, None)}
    return replace(
        cause,
        ranks=tuple(sorted(hit)) if len(hit) == 1 else (),
        hosts=(host,) if host else (),
        rivals=(*cause.rivals, *_elsewhere(cause, host)),
    )


def _elsewhere(cause: FirstCause, host: str | None) -> Sequence[Line]:
    """Equal lines of other hosts that do not certainly come later."""
    others = [line for line in cause.equal if line.host and line.host != host]
    return [line for line in others if not cause.line.is_before(line)]


def _of_network(cause: FirstCause, world: World) -> FirstCause:
    """The host that is an end of most of the failed transfers; a card names its own host."""
    if cause.line.name == "port_down" and cause.line.host:
        return replace(cause, hosts=(cause.line.host,))
    ends: Counter[str] = Counter()
    has_peer = False
    for line in cause.equal:
        address = peer_address(line.text)
        peer = world.addresses.get(address, "")
        has_peer = has_peer or bool(peer)
        ends.update({end for end in (line.host or "", peer) if end})
    most = ends.most_common(2)
    if len(most) < 2 or most[0][1] <= most[1][1] or (not has_peer and len(ends) < 3):
        return cause
    sure = cause.confidence if has_peer else "low"
    return replace(cause, hosts=(most[0][0],), confidence=sure)


def _of_ranks(cause: FirstCause, world: World) -> FirstCause:
    if _is_of_all(cause, world):
        return replace(cause, of_all=True)
    line = cause.line
    ranks = _ranks(cause)
    hosts = {world.host_of(rank) or line.host for rank in ranks}
    host = next(iter(hosts)) if len(hosts) == 1 else None
    local = world.ranks_of(host)
    is_whole_host = len(local) > 2 and len(ranks & local) >= MOST_OF_JOB * len(local)
    if host and is_whole_host and world.has_several_hosts:
        return replace(cause, hosts=(host,))
    if not ranks:
        return _of_hosts(cause, world)
    first = {each.rank for each in _first(cause.equal) if each.rank >= 0} or ranks
    if len(first) > max(2, FEW * len(ranks | set(world.hosts))):
        return replace(cause, confidence="low")
    sure = "medium" if len(first) > 1 and cause.confidence == "high" else cause.confidence
    return replace(cause, ranks=tuple(sorted(first)), confidence=sure)


def _of_hosts(cause: FirstCause, world: World) -> FirstCause:
    """Where no rank is known: the one host on which it stands, if there are others."""
    hosts = {line.host for line in cause.equal}
    host = next(iter(hosts)) if len(hosts) == 1 else None
    sure = "medium" if cause.confidence == "high" else cause.confidence
    names_host = host is not None and world.has_several_hosts
    return replace(cause, hosts=(host,) if names_host and host else (), confidence=sure)


def _is_of_all(cause: FirstCause, world: World) -> bool:
    """Whether nearly all ranks of the job have it."""
    ranks = _ranks(cause)
    known = ranks | set(world.hosts)
    return len(ranks) > 1 and len(ranks) >= MOST_OF_JOB * len(known)


def _ranks(cause: FirstCause) -> set[int]:
    return {line.rank for line in cause.equal if line.rank >= 0}


def _first(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if not any(other.is_before(line) for other in lines)]
