"""Whose each log of an import is, decided when all are known: rank and host.

What lines say counts more than what names say. A rank that torchrun counts within its host becomes
a global one where lines of that host say which. What nothing says stays unknown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ingest.limits import limits
from ingest.readers.logs.places import Place, are_ranks, folder_hosts
from trace_hooks.schema import UNKNOWN

_MOST_OF_LINES = 0.5
_MOST_OF_HOSTS = 0.9
_MASTER = "-master-"


@dataclass
class LogFacts:
    """What one file says of itself; numbers are of lines that are kept."""

    name: str
    place: Place
    num_lines: int = 0
    ranks: dict[int, int] = field(default_factory=dict)
    """that stand in front of its lines"""
    first_ranks: dict[int, int] = field(default_factory=dict)
    """global rank of local rank 0, by lines that name both"""
    hosts: dict[str, int] = field(default_factory=dict)
    communicators: dict[tuple[int, int], int] = field(default_factory=dict)
    """(rank, size) of NCCL's communicators that it enters"""
    first_ranks_of_hosts: dict[str, int] = field(default_factory=dict)
    """global rank of local rank 0 on hosts, as torchrun's boxes on failures say"""

    @property
    def only_rank(self) -> int | None:
        """The one rank that its lines name; None for none or several."""
        return next(iter(self.ranks)) if len(self.ranks) == 1 else None


@dataclass(frozen=True)
class Owner:
    """Rank, of lines that name none, and host of a file; `first_rank`: of its local rank 0."""

    rank: int
    host: str
    first_rank: int | None


class Attribution:
    """The owners of all logs of an import, and what was guessed for that."""

    def __init__(self, logs: Sequence[LogFacts]) -> None:
        self._logs = logs
        self.guesses: list[str] = []
        hosts = _hosts(logs)
        first_ranks = self._first_ranks(hosts)
        ranks = self._ranks(first_ranks)
        most = limits().max_ranks
        self.owners = {
            log.name: Owner(
                rank if 0 <= rank < most else UNKNOWN,
                hosts[log.name],
                first_ranks.get(_agent(log)),
            )
            for log, rank in zip(logs, ranks, strict=True)
        }

    def _first_ranks(self, hosts: Mapping[str, str]) -> dict[str, int]:
        """Global rank of local rank 0 for each torchrun, where its lines agree on it."""
        counted: dict[str, Counter[int]] = defaultdict(Counter)
        of_hosts = {
            _short(host): first
            for log in self._logs
            for host, first in log.first_ranks_of_hosts.items()
        }
        for log in self._logs:
            counted[_agent(log)].update(log.first_ranks)
            host = _short(hosts[log.name])
            if log.place.local_rank is not None and host in of_hosts:
                counted[_agent(log)][of_hosts[host]] += 1
            if log.place.local_rank is not None and log.only_rank is not None:
                counted[_agent(log)][log.only_rank - log.place.local_rank] += 1
        known = {agent: next(iter(firsts)) for agent, firsts in counted.items() if len(firsts) == 1}
        agents = {log.place.agent for log in self._logs if log.place.local_rank is not None}
        if len(agents) == 1 and not any(counted.values()):
            self.guesses.append(
                "torchrun's folders number the ranks of a host; with one host these are taken as "
                "the ranks of the job"
            )
            known = dict.fromkeys(agents, 0)
        return {agent: first for agent, first in known.items() if first >= 0}

    def _ranks(self, first_ranks: Mapping[str, int]) -> list[int]:
        in_job = self._ranks_by_nccl()
        numbers = self._ranks_by_number()
        workers = self._ranks_by_worker()
        return [self._rank(log, first_ranks, (in_job, numbers, workers)) for log in self._logs]

    def _rank(
        self,
        log: LogFacts,
        first_ranks: Mapping[str, int],
        guessed: Iterable[Mapping[str, int]],
    ) -> int:
        place, only = log.place, log.only_rank
        if place.is_host_log:
            return UNKNOWN
        if place.local_rank is not None:
            first = first_ranks.get(_agent(log))
            by_name = UNKNOWN if first is None else first + place.local_rank
            return by_name if only is None else only
        is_of_one = only is not None and log.ranks[only] >= _MOST_OF_LINES * log.num_lines
        if only is not None and is_of_one:
            return only
        if place.rank is not None:
            return place.rank if len(log.ranks) <= 1 else UNKNOWN
        if log.ranks:
            return UNKNOWN
        return next((ranks[log.name] for ranks in guessed if log.name in ranks), UNKNOWN)

    def _ranks_by_nccl(self) -> dict[str, int]:
        """Ranks in a communicator of NCCL that all logs of processes are members of."""
        largest = {
            log.name: max(log.communicators, key=lambda pair: pair[1])
            for log in self._logs
            if log.communicators
        }
        sizes = {size for _, size in largest.values()}
        ranks = {name: rank for name, (rank, _) in largest.items()}
        is_whole = len(sizes) == 1 and are_ranks(list(ranks.values())) and len(ranks) in sizes
        if not is_whole:
            return {}
        if self._are_needed(ranks):
            self.guesses.append(
                f"ranks of {len(ranks)} logs are those that NCCL gives them in a communicator of "
                "them all"
            )
        return ranks

    def _ranks_by_number(self) -> dict[str, int]:
        """Last numbers of names, where they count from 0 on."""
        return self._ranks_by(lambda place: place.number, "the last number of the name")

    def _ranks_by_worker(self) -> dict[str, int]:
        """Numbers of workers; where there is a master, it is rank 0 and worker 0 is rank 1."""
        has_master = any(_MASTER in log.place.host for log in self._logs)

        def rank_of(place: Place) -> int | None:
            if _MASTER in place.host:
                return 0
            return None if place.worker is None else place.worker + has_master

        return self._ranks_by(rank_of, "the number of the worker in the name")

    def _ranks_by(self, number_of: Callable[[Place], int | None], what: str) -> dict[str, int]:
        numbers: dict[str, dict[str, int]] = defaultdict(dict)
        """stream -> file -> number"""
        for log in self._logs:
            number = number_of(log.place)
            if number is not None:
                if len(log.ranks) > 1 or log.only_rank not in (None, number) or log.first_ranks:
                    return {}
                numbers[log.place.stream][log.name] = number
        if not all(are_ranks(list(each.values())) for each in numbers.values()):
            return {}
        ranks = {name: number for each in numbers.values() for name, number in each.items()}
        if self._are_needed(ranks):
            self.guesses.append(f"ranks of {len(ranks)} logs are {what}")
        return ranks

    def _are_needed(self, ranks: Mapping[str, int]) -> bool:
        """Whether one of these files names no rank in its lines."""
        return any(not log.ranks for log in self._logs if log.name in ranks)


def _agent(log: LogFacts) -> str:
    """The torchrun that started a file's ranks: its folder, else the file with all their lines."""
    return log.place.agent if log.place.local_rank is not None else log.name


def _short(host: str) -> str:
    """A host's name without its domain."""
    return host.partition(".")[0]


def _hosts(logs: Sequence[LogFacts]) -> dict[str, str]:
    """Host of each file: of its lines, else of those of the same torchrun, else of its name."""
    by_folder = folder_hosts([log.name for log in logs])
    of_agents: dict[str, Counter[str]] = defaultdict(Counter)
    for log in logs:
        of_agents[_agent(log)].update(log.hosts)
    return {
        log.name: _most(log.hosts)
        or _most(of_agents[_agent(log)])
        or by_folder[log.name]
        or log.place.host
        for log in logs
    }


def _most(hosts: Mapping[str, int]) -> str:
    """The host that nearly all lines name, of those that name one; '' where there is none."""
    host, count = max(hosts.items(), key=lambda item: item[1], default=("", 0))
    return host if count >= _MOST_OF_HOSTS * sum(hosts.values()) else ""
