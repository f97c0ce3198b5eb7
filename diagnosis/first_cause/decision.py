"""Which anchor is the first cause, and whom it names.

The earliest of the anchors is taken. Where their times overlap, a fault of hardware goes before an
exception, that before memory, that before a timeout. The same exception on nearly all ranks names
no rank; on all ranks of one host, the host. Anchors of one class that cannot be ordered and differ
name nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from diagnosis.first_cause.anchors import Episode, explained_by
from diagnosis.first_cause.facts import named_host, peer_address, ranks_passed_over, signature_of
from diagnosis.first_cause.lines import Line
from trace_hooks.log_text.labels import EXCEPTION

MOST_OF_JOB = 0.8
"""Of so many of its ranks the job as a whole is meant, no rank."""

FEW = 0.25
"""At most this share of the ranks is named one by one."""

TOGETHER_NS = 60 * 10**9
"""Equal exceptions within this time are one."""

_CLASSES = {"hardware": 0, "preemption": 0, "memory": 2, "timeout": 3, "launcher": 4}


@dataclass(frozen=True)
class World:
    """What is known of the job: host of each rank that left data, addresses and sizes."""

    hosts: Mapping[int, str | None]
    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_ranks(self) -> int:
        """How many ranks left data."""
        return len(self.hosts)

    def ranks_of(self, host: str | None) -> set[int]:
        """Ranks of a host that left data."""
        return {rank for rank, its in self.hosts.items() if host is not None and its == host}


@dataclass(frozen=True)
class FirstCause:
    """The line where it began. `ranks`, `hosts`: whom it names, both empty where nobody is at fault
    by itself; `of_all`: it is that of nearly all ranks. `rivals`: other lines that cannot be ruled
    out.
    """

    line: Line
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    confidence: str = "medium"
    of_all: bool = False
    equal: tuple[Line, ...] = ()
    rivals: tuple[Line, ...] = ()
    why: str = ""


def first_cause(episode: Episode, world: World) -> FirstCause | None:
    """The cause among the anchors of an episode; None where there are none."""
    if not episode.anchors:
        return None
    first = _first(episode.anchors)
    chosen = min(first, key=_preference)
    same_class = [line for line in first if _class(line) == _class(chosen)]
    equal = _equal(chosen, episode.anchors)
    rivals = tuple(line for line in same_class if line not in equal and line.name != chosen.name)
    if chosen.name == EXCEPTION:
        rivals = tuple(line for line in same_class if line not in equal)
    return _named(chosen, equal, rivals, episode, world)


def _class(line: Line) -> int:
    return _CLASSES.get(line.label.category, 1) if line.label else 5


def _preference(line: Line) -> tuple[int, bool, float]:
    return _class(line), line.name == EXCEPTION, line.begin_ns


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


def _named(
    chosen: Line,
    equal: tuple[Line, ...],
    rivals: tuple[Line, ...],
    episode: Episode,
    world: World,
) -> FirstCause:
    assert chosen.label is not None
    sure = _confidence(chosen, rivals, episode)
    if chosen.is_of_kernel or chosen.label.category == "hardware" or not chosen.label.rank_is_known:
        return _of_machine(chosen, equal, rivals, episode, world, sure)
    if chosen.label.category == "network":
        return _of_network(chosen, equal, rivals, world, sure)
    return _of_ranks(chosen, equal, rivals, world, sure)


def _confidence(chosen: Line, rivals: Sequence[Line], episode: Episode) -> str:
    if rivals:
        return "low"
    has_echo = bool(episode.echoes or episode.weak)
    is_fatal = chosen.level in ("error", "fatal") or chosen.name != EXCEPTION
    return "high" if has_echo and is_fatal and chosen.role == "initiating" else "medium"


def _of_machine(
    chosen: Line,
    equal: tuple[Line, ...],
    rivals: tuple[Line, ...],
    episode: Episode,
    world: World,
    sure: str,
) -> FirstCause:
    """A line of a kernel or scheduler: its host, and the rank where the process is known."""
    passed = ranks_passed_over(chosen.text)
    if passed:
        return FirstCause(chosen, passed, (), sure, equal=equal, rivals=rivals)
    host = named_host(chosen.text) or (chosen.host if chosen.stream != "scheduler" else None)
    whole = (
        chosen.label is not None and not chosen.label.rank_is_known and not named_host(chosen.text)
    )
    if whole and not chosen.is_of_kernel:
        return FirstCause(chosen, (), (), sure, of_all=True, equal=equal, rivals=rivals)
    hit = {line.rank for line in (*explained_by(chosen, _all(episode)), chosen) if line.rank >= 0}
    hit = {rank for rank in hit if host is None or world.hosts.get(rank) in (host, None)}
    ranks = tuple(sorted(hit)) if len(hit) == 1 else ()
    hosts = (host,) if host else ()
    other_hosts = {line.host for line in equal if line.host} - {host}
    if other_hosts and not chosen.is_before(next(li for li in equal if li.host in other_hosts)):
        rivals = (*rivals, *(line for line in equal if line.host in other_hosts))
    return FirstCause(chosen, ranks, hosts, sure, equal=equal, rivals=rivals)


def _all(episode: Episode) -> tuple[Line, ...]:
    return (*episode.anchors, *episode.echoes, *episode.weak, *episode.explained)


def _of_network(
    chosen: Line, equal: tuple[Line, ...], rivals: tuple[Line, ...], world: World, sure: str
) -> FirstCause:
    """The host that is an end of most of the failed transfers; a card names its own host."""
    if chosen.name == "port_down" and chosen.host:
        return FirstCause(chosen, (), (chosen.host,), sure, equal=equal, rivals=rivals)
    ends: Counter[str] = Counter()
    for line in equal:
        peer = world.addresses.get(peer_address(line.text), "")
        ends.update({end for end in (line.host or "", peer) if end})
    most = ends.most_common(2)
    if not most:
        return FirstCause(chosen, (), (), "low", equal=equal, rivals=rivals)
    is_clear = len(most) == 1 or most[0][1] > most[1][1]
    host = most[0][0] if is_clear else (chosen.host or most[0][0])
    return FirstCause(chosen, (), (host,), sure if is_clear else "low", equal=equal, rivals=rivals)


def _of_ranks(
    chosen: Line, equal: tuple[Line, ...], rivals: tuple[Line, ...], world: World, sure: str
) -> FirstCause:
    ranks = {line.rank for line in equal if line.rank >= 0}
    known = ranks | set(world.hosts)
    if len(known) > 2 and len(ranks) >= MOST_OF_JOB * len(known):
        return FirstCause(chosen, (), (), sure, of_all=True, equal=equal, rivals=rivals)
    hosts = {world.hosts.get(rank) or chosen.host for rank in ranks}
    host = next(iter(hosts)) if len(hosts) == 1 else None
    local = world.ranks_of(host)
    if host and len(local) > 2 and len(ranks & local) >= MOST_OF_JOB * len(local):
        return FirstCause(chosen, (), (host,), sure, equal=equal, rivals=rivals)
    first = {line.rank for line in _first(equal) if line.rank >= 0} or ranks
    if rivals:
        return FirstCause(chosen, (), (), "low", equal=equal, rivals=rivals)
    if len(first) > max(2, FEW * len(known)):
        return FirstCause(chosen, (), (), "low", equal=equal, rivals=rivals)
    if not first and chosen.host:
        return FirstCause(chosen, (), (), "medium" if sure == "high" else sure, equal=equal)
    named = "medium" if len(first) > 1 and sure == "high" else sure
    return FirstCause(chosen, tuple(sorted(first)), (), named, equal=equal, rivals=rivals)
