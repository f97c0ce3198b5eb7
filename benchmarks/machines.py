"""Faulty machines named by their metrics: the detector and four rivals on generated jobs.

    python -m benchmarks.machines --seed 11            # about 12 minutes on one core
    python -m benchmarks.machines --seed 11 --faults 150 --healthy 20   # a quick look
    python -m benchmarks.machines --seed 11 --write docs/accuracy-machines.md

Jobs are drawn from the seed (sample_traces/generate/machines): 4 to 1,536 machines, the published
mix of faults in three doses, and what looks like a fault and is none. A fault counts as found if
its machine is named within 15 minutes; any other machine named is a false one; a wrong name is
both. Each rival gets the threshold that is best for it on the seeds of --fit (default 1 to 3).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.machine_report import table_of
from benchmarks.machine_rivals import named, prepared, windows
from benchmarks.machine_rivals.minder import Minder, cut
from benchmarks.machine_rivals.simple import mahalanobis, median_mad, three_sigma
from benchmarks.page_part import write_part
from diagnosis.detectors.faulty_machine.watch import MachineWatch
from sample_traces.generate.machines.job import MachineJob, draw_job, draw_kind
from sample_traces.generate.machines.worlds import DOSES

FAULT_S, HEALTHY_S = 1_200, 1_800
WITHIN_S = 900.0
OURS = "rankscope"
RIVALS = ("Minder", "Mahalanobis", "median and MAD", "3-sigma")
GRID = {
    "Minder": np.linspace(0.3, 0.99, 40),
    "Mahalanobis": np.geomspace(1.2, 60, 40),
    "median and MAD": np.geomspace(2, 80, 40),
    "3-sigma": np.linspace(1.2, 12, 40),
}
BEGIN, END = "<!-- tables of benchmarks/machines.py -->", "<!-- end of the tables -->"
_MOST_FOR_MINDER = 256
"""Machines of a job that Minder's networks are run on: 1,536 take a minute of CPU."""


@dataclass(frozen=True)
class Outcome:
    """One method on one job. `delay_s`: -1 where the machine was not named in time."""

    method: str
    kind: str
    dose: str
    num_machines: int
    hours: float
    found: bool
    delay_s: float
    num_false: int
    seed: int
    decoys: tuple[str, ...] = ()


def main() -> None:
    """Run, print, and write."""
    args = _arguments()
    begin = time.process_time()
    methods = () if args.no_rivals else RIVALS
    fitted, minder = _fitted(args.fit, args.fit_faults) if methods else ({}, None)
    outcomes: list[Outcome] = []
    for job, seed in jobs(args.seed, args.faults, args.healthy):
        own = [outcome(OURS, job, seed, _ours(job))]
        for name, ranked in _rivals(job, minder) if methods else ():
            own.append(outcome(name, job, seed, named(*ranked, fitted[name])))
        outcomes += own
        if args.outcomes:
            with args.outcomes.open("a", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(asdict(each))}\n" for each in own)
    figures = {"seed": args.seed, "cpu_min": (time.process_time() - begin) / 60, "fitted": fitted}
    table = table_of(outcomes, figures)
    print(table)
    if args.write:
        write_part(args.write, BEGIN, END, table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--faults", type=int, default=600)
    parser.add_argument("--healthy", type=int, default=150)
    parser.add_argument("--fit", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--fit-faults", type=int, default=24, help="of each seed of --fit")
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument(
        "--outcomes", type=Path, help="file to which one JSON line per job and method is added"
    )
    return parser.parse_args()


def jobs(seed: int, faults: int, healthy: int) -> Iterable[tuple[MachineJob, int]]:
    """All jobs of a seed: faults by the mix, doses in turn, then healthy ones."""
    rng = np.random.default_rng(seed)
    for index in range(faults):
        own = seed * 1_000_000 + index
        yield draw_job(own, FAULT_S, draw_kind(rng), list(DOSES)[index % len(DOSES)]), own
    for index in range(healthy):
        own = seed * 1_000_000 + 500_000 + index
        yield draw_job(own, HEALTHY_S), own


def outcome(
    method: str, job: MachineJob, seed: int, alarms: Sequence[tuple[int, float]]
) -> Outcome:
    """What a method's alarms (machine, second) are worth."""
    fault = job.fault
    right = [
        second - fault.begin_s
        for machine, second in alarms
        if fault is not None
        and machine == fault.machine
        and 0 <= second - fault.begin_s <= WITHIN_S
    ]
    culprit = -1 if fault is None else fault.machine
    early = fault is not None and any(m == culprit and s < fault.begin_s for m, s in alarms)
    wrong = {machine for machine, _ in alarms if machine != culprit}
    return Outcome(
        method, fault.kind if fault else "", fault.dose if fault else "", job.num_machines,
        job.num_machines * job.values_MTN.shape[1] / 3_600, bool(right),
        min(right, default=-1.0), len(wrong) + early, seed, tuple(sorted(set(job.decoys))),
    )  # fmt: skip


def _ours(job: MachineJob) -> list[tuple[int, float]]:
    names = [str(index) for index in range(job.num_machines)]
    watch = MachineWatch(names, job.metrics, job.role_N.tolist())
    watch.push(job.values_MTN)
    return [(int(alarm.machine), float(alarm.alarm_s)) for alarm in watch.alarms]


def _rivals(job: MachineJob, minder: Minder | None) -> Iterable[tuple[str, tuple]]:  # type: ignore[type-arg]
    made = prepared(job.values_MTN)
    of_windows = windows(made)
    yield "Mahalanobis", mahalanobis(of_windows)
    yield "median and MAD", median_mad(of_windows)
    yield "3-sigma", three_sigma(of_windows)
    if minder is not None and job.num_machines <= _MOST_FOR_MINDER:
        yield "Minder", minder.ranked(job.metrics, made)


def _fitted(seeds: Sequence[int], faults: int) -> tuple[dict[str, float], Minder]:
    """The threshold of each rival, and Minder's networks, from the seeds of development."""
    minder = _trained(seeds)
    ranked: dict[str, list] = {name: [] for name in RIVALS}  # type: ignore[type-arg]
    for seed in seeds:
        for job, own in jobs(seed, faults, faults // 4):
            for name, scores in _rivals(job, minder):
                ranked[name].append((job, own, scores))
    return {name: _best(name, cases) for name, cases in ranked.items()}, minder


def _best(name: str, cases: list) -> float:  # type: ignore[type-arg]
    def f1(threshold: float) -> float:
        results = [outcome(name, job, own, named(*top, threshold)) for job, own, top in cases]
        found = sum(each.found for each in results)
        wrong = sum(each.num_false for each in results)
        return 2 * found / max(found + wrong + sum(bool(r.kind) for r in results), 1)

    return float(max(GRID[name], key=f1))


def _trained(seeds: Sequence[int]) -> Minder:
    """On windows of healthy machines."""
    rows: dict[str, list] = {}  # type: ignore[type-arg]
    rng = np.random.default_rng(seeds[0])
    for seed in seeds:
        for index in range(6):
            job = draw_job(seed * 1_000_000 + 900_000 + index, HEALTHY_S, num_machines=8)
            made = prepared(job.values_MTN)
            for metric, name in enumerate(job.metrics):
                flat = cut(made[metric]).reshape(-1, 8)
                rows.setdefault(name, []).append(flat[rng.permutation(len(flat))[:200]])
    minder = Minder(seeds[0])
    errors = minder.train({name: np.concatenate(parts) for name, parts in rows.items()})
    worst = max(errors, key=lambda name: errors[name])
    print(f"Minder's networks: mean squared errors up to {errors[worst]:.1e} ({worst})", flush=True)
    return minder


if __name__ == "__main__":
    main()
