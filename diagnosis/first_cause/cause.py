"""What is decided, and what is known of the job that it is decided for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnosis.first_cause.lines import Line

MOST_OF_JOB = 0.8
"""Of so many of its ranks the job as a whole is meant, no rank."""

FEW = 0.25
"""At most this share of the ranks is named one by one."""


@dataclass(frozen=True)
class World:
    """What is known of the job: host of each rank that left data, hosts by address, hosts of ranks
    as launchers name them, hosts that lines with a meaning name, and how many any line names.
    """

    hosts: Mapping[int, str | None]
    addresses: Mapping[str, str] = field(default_factory=dict)
    launched: Mapping[int, str] = field(default_factory=dict)
    other_hosts: frozenset[str] = frozenset()
    num_hosts: int = 0

    @property
    def num_ranks(self) -> int:
        """How many ranks left data."""
        return len(self.hosts)

    def host_of(self, rank: int) -> str | None:
        """Host of a rank; None unknown."""
        return self.hosts.get(rank) or self.launched.get(rank)

    @property
    def has_several_hosts(self) -> bool:
        """Whether it is said of one host that it is another than the rest."""
        known = {*filter(None, self.hosts.values()), *self.other_hosts}
        return max(len(known), self.num_hosts) > 1

    def ranks_of(self, host: str | None) -> set[int]:
        """Ranks of a host that left data."""
        return {rank for rank in self.hosts if host is not None and self.host_of(rank) == host}


@dataclass(frozen=True)
class FirstCause:
    """The line where it began. `ranks`, `hosts`: whom it names, both empty where nobody is at fault
    by itself; `of_all`: it is that of nearly all ranks. `rivals`: other lines that cannot be ruled
    out. `why`: how it was found where the line alone does not say it.
    """

    line: Line
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    confidence: str = "medium"
    of_all: bool = False
    equal: tuple[Line, ...] = ()
    rivals: tuple[Line, ...] = ()
    why: str = ""
