"""Fleets drawn at random: which hosts took part in which runs, and where findings name one.

Without a bad host there are five worlds, as chance is not the same everywhere:

even      each host of each run is slow with the same probability
jobs      each job has a probability of its own, from 0.2 % to 20 %, and hosts that it uses most
spells    the probability is ten times as high in a tenth of the time
together  in a tenth of the runs up to half of the hosts are slow at once
place     the first place of each job is slow in every seventh run, and goes to the same machines
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diagnosis.fleet.summary import Found, Summary

WORLDS = ("even", "jobs", "spells", "together", "place")
RATE = 0.02
"""Probability that a host is slow in a run, for no reason of its own."""
DAY_NS = 86_400 * 10**9
BEGIN_NS = 1_767_225_600 * 10**9
"""2026-01-01 UTC."""


@dataclass(frozen=True)
class Shape:
    """Size of a fleet; `per_run`: hosts of a run."""

    num_runs: int
    num_hosts: int
    num_jobs: int
    per_run: tuple[int, ...]


def drawn_shape(rng: np.random.Generator) -> Shape:
    """40 to 400 runs of 1 to 8 jobs on 16 to 400 hosts, 2 to 32 for a run."""
    num_hosts = int(rng.integers(16, 400))
    num_jobs = int(rng.integers(1, 9))
    per_run = tuple(int(min(2 ** rng.integers(1, 6), num_hosts // 2)) for _ in range(num_jobs))
    return Shape(int(rng.integers(40, 400)), num_hosts, num_jobs, per_run)


def random_fleet(rng: np.random.Generator, world: str, shape: Shape) -> dict[str, Summary]:
    """Summaries of a fleet without a bad host, by names of runs."""
    rate_J = np.full(shape.num_jobs, RATE)
    weight_JH = np.ones((shape.num_jobs, shape.num_hosts))
    if world == "jobs":
        rate_J = np.exp(rng.uniform(np.log(0.002), np.log(0.2), shape.num_jobs))
        weight_JH[rng.random(weight_JH.shape) < 0.5] = 0.05
    spells_T = rng.random(10) < 0.1 if world == "spells" else np.zeros(10, np.bool_)
    runs = {}
    for number in range(shape.num_runs):
        job = int(rng.integers(shape.num_jobs))
        size = shape.per_run[job]
        chance = weight_JH[job] / weight_JH[job].sum()
        hosts = rng.choice(shape.num_hosts, size, replace=False, p=chance)
        rate = rate_J[job] * (10 if spells_T[10 * number // shape.num_runs] else 1)
        if world == "together" and rng.random() < 0.1:
            rate = 0.5
        slow = rng.random(size) < min(rate, 1.0)
        if world == "place":
            hosts.sort()
            slow[0] |= rng.random() < 1 / 7
        name = f"run{number:04d}"
        runs[name] = fleet_run(name, job, number, hosts.tolist(), hosts[slow].tolist())
    return runs


def with_bad_host(
    rng: np.random.Generator, runs: dict[str, Summary], host: int, slow_in: int
) -> dict[str, Summary]:
    """The fleet with a host that is slow in so many of the runs that it took part in."""
    named = host_name(host)
    own = [name for name, run in runs.items() if named in run.hosts]
    changed = dict(runs)
    for name in rng.permutation(own)[:slow_in].tolist():
        run = runs[name]
        slow = {number_of(host) for found in run.findings for host in found.hosts} | {host}
        job, number = int(run.model.removeprefix("job")), int(name.removeprefix("run"))
        hosts = [number_of(host) for host in run.hosts]
        changed[name] = fleet_run(name, job, number, hosts, sorted(slow))
    return changed


def fleet_run(name: str, job: int, number: int, hosts: list[int], slow: list[int]) -> Summary:
    """A run of eight ranks on each host, with a finding for each slow one; one run a day."""
    ranks = {host: 8 * place for place, host in enumerate(hosts)}
    return Summary(
        version="made",
        state="made",
        run=name,
        started_ns=BEGIN_NS + number * DAY_NS,
        attempts=1,
        num_ranks=8 * len(hosts),
        layout=f"dp {8 * len(hosts)}",
        model=f"job{job}",
        parameters=1e9 * (job + 1),
        num_steps=1000,
        step_ms=1000.0,
        wall_s=1100.0,
        rank_hours=8 * len(hosts) * 1100 / 3600,
        goodput=1000 / 1100,
        outside_hours={"start_up": 8 * len(hosts) * 100 / 3600},
        mfu=0.4 - 0.02 * job,
        S=1.02 + 0.1 * len(slow),
        no_S="",
        judged=True,
        num_noted=0,
        is_partial=False,
        findings=tuple(
            Found(
                id=f"slow_worker-0-{ranks[host]}-100",
                kind="slow_worker",
                title=f"Rank {ranks[host]} is slow",
                severity="urgent",
                first_step=100,
                hosts=(host_name(host),),
                ranks=(ranks[host],),
                num_ranks=1,
                rank_hours=8 * len(hosts) * 0.05,
                share=0.1,
            )
            for host in slow
        ),
        hosts=tuple(map(host_name, hosts)),
    )


def host_name(number: int) -> str:
    """Name of a host."""
    return f"gpu{number:04d}"


def number_of(host: str) -> int:
    """The host of a name."""
    return int(host.removeprefix("gpu"))
