"""The plan of a self-test: units of work. It depends on hosts, device and sizes alone.

A unit has disjoint groups of ranks that measure at the same time; the other ranks wait. Pairs meet
in a round-robin tournament (the circle method): n - 1 rounds of n / 2 pairs, each pair once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

DEVICE_TESTS = ("matmul", "memory", "h2d", "d2h")
PAIR_TESTS = ("mesh", "pair")
GROUP_TESTS = ("halves", "all_reduce")
RECHECK = " recheck"
"""Ending of a test's name where suspects and controls are measured again, with all others idle."""

SMALL = 64 * KIB
"""Shows a link's latency; the largest message shows its bandwidth."""

Group = tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    """One piece of work. `groups`: disjoint, of one rank for tests of devices."""

    test: str
    num_bytes: int
    groups: tuple[Group, ...]

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Unit:
        """The unit that rank 0 sent."""
        groups = tuple(tuple(group) for group in plain["groups"])
        return cls(plain["test"], plain["num_bytes"], groups)

    def group_of(self, rank: int) -> Group | None:
        """The group that a rank measures with; None: it waits."""
        return next((group for group in self.groups if rank in group), None)


@dataclass(frozen=True)
class Sizes:
    """How much is measured. `matmul`: rows of the square matrices; the others are bytes."""

    matmul: int
    memory: int
    copy: int
    message: int

    @classmethod
    def of(cls, device: str, message: int | None = None) -> Sizes:
        """Usual sizes for `cuda` or `cpu`; `message`: the largest one between ranks.

        On CPUs one repetition takes less than a time slice of the scheduler: then the shortest of
        some is undisturbed whatever else runs there.
        """
        if device == "cuda":
            return cls(8192, GIB, 256 * MIB, message or 256 * MIB)
        return cls(256, 8 * MIB, 0, message or 8 * MIB)


def plan(hosts: Sequence[str], device: str, sizes: Sizes) -> tuple[Unit, ...]:
    """All units, in order. `hosts`: of each rank; `device`: cuda or cpu."""
    return (*_devices(len(hosts), device, sizes), *_pairs(hosts, sizes), *_groups(hosts, sizes))


def _devices(num_ranks: int, device: str, sizes: Sizes) -> Iterator[Unit]:
    alone = tuple((rank,) for rank in range(num_ranks))
    item_bytes = 2 if device == "cuda" else 4
    yield Unit("matmul", 2 * item_bytes * sizes.matmul**2, alone)
    yield Unit("memory", sizes.memory, alone)
    if device == "cuda":
        yield Unit("h2d", sizes.copy, alone)
        yield Unit("d2h", sizes.copy, alone)


def _pairs(hosts: Sequence[str], sizes: Sizes) -> Iterator[Unit]:
    """Pairs of ranks inside each host, then pairs of hosts, each local rank with its like."""
    of_host = ranks_of_hosts(hosts)
    for num_bytes in sorted({min(SMALL, sizes.message), sizes.message}):
        rounds = [list(tournament(ranks)) for ranks in of_host.values()]
        for number in range(max(map(len, rounds), default=0)):
            groups = [pair for own in rounds if number < len(own) for pair in own[number]]
            if groups:
                yield Unit("mesh", num_bytes, tuple(groups))
        for pairs in tournament(range(len(of_host))):
            ranks = list(of_host.values())
            groups = [two for a, b in pairs for two in zip(ranks[a], ranks[b], strict=False)]
            if groups:
                yield Unit("pair", num_bytes, tuple(groups))


def _groups(hosts: Sequence[str], sizes: Sizes) -> Iterator[Unit]:
    """All-reduce on halves, quarters, ... of the ranks in order of hosts, then on all ranks."""
    in_order = [rank for ranks in ranks_of_hosts(hosts).values() for rank in ranks]
    parts: list[Sequence[int]] = [in_order]
    while len(parts[0]) >= 4:
        parts = [half for part in parts for half in _halves(part)]
        groups = tuple(tuple(sorted(part)) for part in parts if len(part) > 1)
        yield Unit("halves", sizes.message, groups)
    if len(hosts) > 1:
        sweep = (SMALL, MIB, 16 * MIB, 256 * MIB)
        for num_bytes in sorted({size for size in sweep if size < sizes.message} | {sizes.message}):
            yield Unit("all_reduce", num_bytes, (tuple(range(len(hosts))),))


def _halves(part: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    middle = len(part) // 2
    return part[:middle], part[middle:]


def ranks_of_hosts(hosts: Sequence[str]) -> dict[str, list[int]]:
    """Ranks of each host, hosts in the order of their first rank."""
    found: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        found.setdefault(host, []).append(rank)
    return found


def tournament(players: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Rounds of disjoint pairs in which each two of the players meet exactly once."""
    circle: list[int | None] = list(players)
    if len(circle) % 2:
        circle.append(None)  # who meets it has a break
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        met = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield tuple((min(a, b), max(a, b)) for a, b in met if a is not None and b is not None)
        circle.insert(1, circle.pop())


def members_text(ranks: Sequence[int]) -> str:
    """Ranks in words that fit a column: 0-3, or 0,2,5."""
    low, high = min(ranks), max(ranks)
    if len(ranks) > 2 and high - low + 1 == len(ranks):
        return f"{low}-{high}"
    return ",".join(map(str, sorted(ranks)))
