"""Summaries of many runs: how fast they are read, and how often a host is named for nothing.

python -m benchmarks.fleet [--runs 1000] [--cards 200] [--fleets 200] [--seed 1]
    [--only names|speed]

names: draws fleets without a bad host in five worlds (benchmarks/random_fleets.py) and counts those
in which a host is named; then fleets with one host that is slow in 5 of 40 runs, and counts those
in which it is named, and others are. speed: generates one small run and its index, puts it under so
many names with summaries of their own, and measures `rankscope fleet`, its parts, and what the list
of runs reads instead: the card of each run, from its index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np

from app.analysis.fleet.collected import collected
from app.analysis.fleet.stored import FILE, new_summary, version
from app.views.run.runs import read_card
from benchmarks.random_fleets import (
    WORLDS,
    Shape,
    drawn_shape,
    host_name,
    random_fleet,
    with_bad_host,
)
from diagnosis.fleet.fleet import fleet
from diagnosis.fleet.hosts import slow_hosts
from diagnosis.fleet.summary import Summary
from ingest.index.snapshots import index_folder
from ingest.run import RunStore
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from trace_hooks.schema import publish_json

REPEATS = 5
PLANTED = 5, 40
"""Slow in so many runs of a fleet of so many."""


def names(num_fleets: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    print(
        f"{'no bad host, world':20} {'fleets':>6} {'a name':>7} {'or its place':>12} {'judged':>7}"
    )
    for world in WORLDS:
        falsely = perhaps = judged = 0
        for _ in range(num_fleets):
            found = slow_hosts(random_fleet(rng, world, drawn_shape(rng)))
            falsely += any(not one.is_place_possible for one in found.named)
            perhaps += any(one.is_place_possible for one in found.named)
            judged += found.num_judged
        row = f"{world:20} {num_fleets:6} {falsely:7} {perhaps:12}"
        print(f"{row} {judged / num_fleets:7.0f}")
    slow, runs = PLANTED
    head = f"a host slow in {slow} of {runs} runs"
    print(f"\n{head:28} {'named':>6} {'or place':>8} {'also others':>11}")
    for per_run in (2, 4, 8, 32):
        shares = planted(rng, Shape(runs, 4 * per_run, 1, (per_run,)), num_fleets, slow)
        found, perhaps, others = (f"{share:.1%}" for share in shares)
        what = f"{per_run} of {4 * per_run} hosts a run"
        print(f"{what:28} {found:>6} {perhaps:>8} {others:>11}")


def planted(
    rng: np.random.Generator, shape: Shape, num_fleets: int, slow: int
) -> tuple[float, float, float]:
    """Shares of fleets in which the host is named, its place is not excluded, others are named."""
    found = perhaps = others = 0
    for _ in range(num_fleets):
        host = int(rng.integers(shape.num_hosts))
        runs = with_bad_host(rng, random_fleet(rng, "even", shape), host, slow)
        named = {one.host: one.is_place_possible for one in slow_hosts(runs).named}
        bad = host_name(host)
        found += named.get(bad) is False
        perhaps += named.get(bad) is True
        others += bool(set(named) - {bad})
    return found / num_fleets, perhaps / num_fleets, others / num_fleets


def speed(num_runs: int, num_cards: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "runs"
        rng = np.random.default_rng(seed)
        made_runs(root, random_fleet(rng, "even", Shape(num_runs, 400, 4, (2, 4, 8, 32))))
        folders = RunStore(root).folders()
        found = collected(folders)
        if found.missing or found.problems:
            sys.exit(f"{len(found.missing)} summaries are missing: nothing can be measured")
        whole = lambda: subprocess.run(  # noqa: E731
            [Path(sys.executable).with_name("rankscope"), "fleet", str(root)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        hosts = slow_hosts(found.summaries)
        parts = {
            "rankscope fleet, whole process": whole,
            "  reading the stored summaries": lambda: collected(folders),
            "  comparing hosts": lambda: slow_hosts(found.summaries),
            "  all sums": lambda: fleet(found.summaries, hosts),
        }
        print(f"{f'{num_runs} runs, median of {REPEATS}':44} {'wall':>8} {'CPU':>10}")
        for name, call in parts.items():
            wall_s, cpu_s = medians_s(call)
            print(f"{name:44} {wall_s:8.2f} s {cpu_s:8.2f} s")
        read_card(folders[0])  # loads what is loaded only once
        wall_s, cpu_s = medians_s(lambda: [read_card(f) for f in folders[:num_cards]], 1)
        scale = num_runs / num_cards
        what = f"the card of each run instead (of {num_cards})"
        print(f"{what:44} {scale * wall_s:8.2f} s {scale * cpu_s:8.2f} s")


def made_runs(root: Path, summaries: Mapping[str, Summary]) -> None:
    """Run folders with these summaries, and the index of one small run (links to its files)."""
    first = root.parent / "first"
    generate(SyntheticJob(16, 2, 4, 6, num_microbatches=2, level="steps"), first)
    state = new_summary(first).state
    time.sleep(1.1)  # a folder that has just changed is looked at again
    new_summary(first)
    root.mkdir()
    for name, summary in summaries.items():
        shutil.copytree(first, root / name, copy_function=os.link)
        file = index_folder(root / name) / FILE
        file.unlink()
        own = msgspec.structs.replace(summary, version=version(), state=state)
        publish_json(msgspec.to_builtins(own), file)


def medians_s(call: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Wall and CPU time of a call, with the processes that it starts."""
    times_s = []
    for _ in range(repeats):
        begun, begun_cpu = time.perf_counter(), cpu_s()
        call()
        times_s.append((time.perf_counter() - begun, cpu_s() - begun_cpu))
    wall, cpu = zip(*times_s, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def cpu_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cards", type=int, default=200)
    parser.add_argument("--fleets", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("names", "speed"))
    options = parser.parse_args()
    if options.only != "speed":
        names(options.fleets, options.seed)
    if options.only != "names":
        speed(options.runs, min(options.cards, options.runs), options.seed)


if __name__ == "__main__":
    main()
