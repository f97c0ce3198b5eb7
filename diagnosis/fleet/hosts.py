"""Which hosts are slow in more runs than chance explains.

MegaScale (arXiv 2402.15627, section 5.1) found 0.5 % of its machines slow in job after job. A host
that is named here may be taken out of service, so chance has to be excluded first.

The hypothesis tested is that of equal runs of the same job, no host is slow more often than the
others. Runs are equal within a block: up to BLOCK_RUNS consecutive runs of the same model in the
same layout. In a block b, T_b hosts took part (each counted once for each run), K_b of them were
slow, and the host in question took part n_b times. If the hypothesis holds, the number of times it
was slow is hypergeometric,

    P(k_b = k) = C(n_b, k) C(T_b - n_b, K_b - k) / C(T_b, K_b)

and independent from block to block, so that k = sum of k_b has the convolution of these as its
distribution. The p-value is P(sum >= k), times the number of hosts judged (Bonferroni): a fleet
where the hypothesis holds has a host named by chance in at most BY_CHANCE of cases.

A place in the job may be slow instead of the machine (the first rank writes the logs), and the
scheduler may give the same machine the same place. So the same is tested once more against hosts in
the same place only: b is then a place in the runs of a job. Where that could be chance, the cause
may be either of them, and the text says so (`is_place_possible`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from diagnosis.fleet.summary import Found, Summary
from diagnosis.statistics.rank_tables import Floats

BY_CHANCE = 0.01
"""What chance may reach over all hosts of a fleet."""

FEWEST_RUNS = 3
"""Hosts in fewer runs are not judged: slow in each of two is no repetition yet."""

BLOCK_RUNS = 8
"""Of a job with two hosts these are 16 to compare. How often hosts are slow changes over weeks:
longer blocks would take a host that was there in a bad spell for a slow one."""

OF_A_HOST = frozenset(
    (
        "slow_worker",
        "host_contention",
        "stopped_process",
        "faulty_machine",
        "slow_startup",
        "slow_host",
        "slow_node_link",
        "slow_link",
        "link_flap",
        "selftest_host",
        "selftest_device",
    )
)
"""Kinds of findings whose cause may be the machine that they name. Not those that code explains,
such as gc_pauses, nor those on the whole job."""

Blocks = Sequence[tuple[int, int, int]]
"""(T, K, n) of each block."""
_Stratum = tuple[int, int]
"""Block, and place of the host in its run; 0 where all places are compared."""


@dataclass(frozen=True)
class SlowHost:
    """A host that is slow more often than chance explains.

    `expected`: number of runs in which it would be slow by chance. `p_value`: times the number of
    hosts; `p_in_place`: the same against hosts in the same place. `runs`: name of the run and the
    finding, in the order of time.
    """

    host: str
    num_runs: int
    num_slow: int
    expected: float
    p_value: float
    p_in_place: float
    runs: tuple[tuple[str, Found], ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the findings, the most frequent first."""
        return tuple(kind for kind, _ in Counter(f.kind for _, f in self.runs).most_common())

    @property
    def is_place_possible(self) -> bool:
        """Whether its place in the jobs may be slow instead."""
        return self.p_in_place > BY_CHANCE

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that the findings name, where they are the same in all runs, else empty."""
        named = {found.ranks for _, found in self.runs}
        return next(iter(named)) if len(named) == 1 else ()


@dataclass(frozen=True)
class SlowHosts:
    """The hosts named, how many were judged, and how many are in too few runs to be judged."""

    named: tuple[SlowHost, ...] = ()
    num_judged: int = 0
    num_too_few: int = 0
    num_runs: int = 0
    """runs that can be compared: two hosts or more are known by name, and were judged"""


@dataclass
class _Counts:
    """T and K of each stratum; of each host n of its strata, and where it was slow."""

    totals: Counter[_Stratum] = field(default_factory=Counter)
    slow: Counter[_Stratum] = field(default_factory=Counter)
    times: dict[str, Counter[_Stratum]] = field(default_factory=lambda: defaultdict(Counter))
    found: dict[str, list[tuple[str, Found]]] = field(default_factory=lambda: defaultdict(list))

    def own(self, host: str) -> Blocks:
        """(T, K, n) of the strata that a host is in."""
        return [(self.totals[one], self.slow[one], n) for one, n in self.times[host].items()]


def slow_hosts(runs: Mapping[str, Summary]) -> SlowHosts:
    """Hosts slow beyond chance, the least probable first; summaries by the names of their runs."""
    compared = {name: one for name, one in _once_each(runs).items() if _can_compare(one)}
    counts = _counted(_blocks(compared, BLOCK_RUNS), compared, by_place=False)
    in_place = _counted(_blocks(compared, len(compared)), compared, by_place=True)
    judged = [host for host, times in counts.times.items() if times.total() >= FEWEST_RUNS]
    named = []
    for host in judged:
        found = counts.found.get(host, [])
        if len(found) < 2:
            continue
        p_value = min(1.0, len(judged) * tail(counts.own(host), len(found)))
        if p_value <= BY_CHANCE:
            p_in_place = min(1.0, len(judged) * tail(in_place.own(host), len(found)))
            found.sort(key=lambda one: (runs[one[0]].started_ns or 2**63, one[0]))
            named.append(_slow_host(host, counts, p_value, p_in_place))
    named.sort(key=lambda one: (one.p_value, one.host))
    num_too_few = len(counts.times) - len(judged)
    return SlowHosts(tuple(named), len(judged), num_too_few, len(compared))


def slow_in(run: Summary) -> dict[str, Found]:
    """Hosts that findings of a run name, with the costliest of them."""
    found: dict[str, Found] = {}
    for one in sorted(run.findings, key=lambda one: -(one.rank_hours or 0.0)):
        if one.kind in OF_A_HOST:
            for host in one.hosts:
                found.setdefault(host, one)
    own = set(run.hosts)
    return {host: one for host, one in found.items() if host in own}


def _once_each(runs: Mapping[str, Summary]) -> dict[str, Summary]:
    """Without the copies of a run under other names, which would count its findings twice."""
    first: dict[tuple[str, int | None], str] = {}
    for name in sorted(runs):
        first.setdefault((runs[name].run, runs[name].started_ns), name)
    return {name: runs[name] for name in first.values()}


def _can_compare(run: Summary) -> bool:
    """Whether its hosts can be compared: where most of them are slow, the cause is none of them."""
    num_hosts = len(set(run.hosts))
    return run.judged and num_hosts >= 2 and 2 * len(slow_in(run)) <= num_hosts


def _counted(
    blocks: Iterable[Sequence[str]], runs: Mapping[str, Summary], by_place: bool
) -> _Counts:
    counts = _Counts()
    for number, block in enumerate(blocks):
        for name in block:
            slow = slow_in(runs[name])
            for place, host in enumerate(dict.fromkeys(runs[name].hosts)):
                stratum = number, place if by_place else 0
                counts.totals[stratum] += 1
                counts.times[host][stratum] += 1
                if host in slow:
                    counts.slow[stratum] += 1
                    counts.found[host].append((name, slow[host]))
    return counts


def _blocks(runs: Mapping[str, Summary], most: int) -> Iterable[list[str]]:
    """Names of at most so many consecutive runs of the same job; those without a time come last."""
    jobs: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for name in sorted(runs, key=lambda name: (runs[name].started_ns or 2**63, name)):
        jobs[runs[name].job].append(name)
    for names in jobs.values():
        for first in range(0, len(names), most):
            yield names[first : first + most]


def tail(blocks: Blocks, least: int) -> float:
    """P(slow at least so often), where each host of a block is slow as often as the others."""
    chance = np.ones(1)
    for total, num_slow, times in blocks:
        chance = np.convolve(chance, _hypergeometric(total, num_slow, times))
    return float(min(1.0, chance[least:].sum()))


@lru_cache(maxsize=4096)
def _hypergeometric(total: int, num_slow: int, times: int) -> Floats:
    """P(k) for k = 0..min(times, num_slow)."""
    most = min(times, num_slow)
    chance = np.zeros(most + 1)
    for k in range(max(0, num_slow - (total - times)), most + 1):
        ways = _ways(times, k) + _ways(total - times, num_slow - k) - _ways(total, num_slow)
        chance[k] = math.exp(ways)
    return chance


def _ways(of: int, chosen: int) -> float:
    """Logarithm of the binomial coefficient."""
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)


def _slow_host(host: str, counts: _Counts, p_value: float, p_in_place: float) -> SlowHost:
    own, found = counts.own(host), counts.found[host]
    return SlowHost(
        host=host,
        num_runs=counts.times[host].total(),
        num_slow=len(found),
        expected=sum(num_slow * times / total for total, num_slow, times in own),
        p_value=p_value,
        p_in_place=p_in_place,
        runs=tuple(found),
    )
