"""A line of a log before it is written to a file, and the job that it belongs to."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SECOND_NS = 10**9
RANKS_PER_HOST = 8


@dataclass(frozen=True)
class Entry:
    """Text that a process writes at a true time. `rank` -1: of the host. `style`: how its time is
    written: log, c10d, nccl, kernel, scheduler, or none.
    """

    at_ns: int
    host: int
    rank: int
    stream: str
    text: str
    style: str = "none"
    level: str = "INFO"


@dataclass
class Job:
    """Hosts, ranks and clocks of a job, and what its processes wrote."""

    rng: random.Random
    num_hosts: int
    start_ns: int
    offsets_ns: tuple[int, ...]
    launcher: str
    has_nccl_info: bool
    timeout_s: int
    entries: list[Entry] = field(default_factory=list)

    @property
    def num_ranks(self) -> int:
        """Eight on each host."""
        return self.num_hosts * RANKS_PER_HOST

    def host_of(self, rank: int) -> int:
        """Number of the host on which a rank runs."""
        return rank // RANKS_PER_HOST

    def ranks_of(self, host: int) -> tuple[int, ...]:
        """The ranks of a host."""
        return tuple(range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST))

    def any_rank(self) -> int:
        """A random one."""
        return self.rng.randrange(self.num_ranks)

    def host_name(self, host: int) -> str:
        """As it stands in the logs."""
        return f"gpu-node{host + 11:03d}"

    def address(self, host: int) -> str:
        """Of its network interface."""
        return f"10.12.{host // 200}.{host % 200 + 21}"

    def pid(self, rank: int) -> int:
        """Process id of a rank on its host."""
        return 41_200 + 137 * self.host_of(rank) + 3 * (rank % RANKS_PER_HOST)

    def say(
        self,
        at_ns: float,
        rank: int,
        text: str,
        style: str = "none",
        stream: str = "stderr",
        level: str = "INFO",
    ) -> None:
        """A rank writes."""
        self.entries.append(
            Entry(round(at_ns), self.host_of(rank), rank, stream, text, style, level)
        )

    def of_host(self, at_ns: float, host: int, text: str, stream: str, style: str = "") -> None:
        """A kernel, launcher or scheduler writes."""
        self.entries.append(Entry(round(at_ns), host, -1, stream, text, style or stream))


def made_job(rng: random.Random) -> Job:
    """A job of two to four hosts; in half of them the clocks of hosts are seconds apart."""
    num_hosts = rng.choice((2, 2, 3, 4))
    apart = rng.random() < 0.5
    offsets = tuple(
        round(rng.uniform(-2.0, 2.0) * SECOND_NS) if apart else round(rng.gauss(0, 2e6))
        for _ in range(num_hosts)
    )
    day_s = rng.randrange(1_767_225_600, 1_798_761_600)
    return Job(
        rng,
        num_hosts,
        day_s * SECOND_NS,
        offsets,
        rng.choice(("torchrun", "slurm", "mixed", "folder")),
        rng.random() < 0.7,
        rng.choice((600, 600, 1800)),
    )
