"""How far replayed steps are from measured ones, and whether a planted slowdown is found again.

python -m benchmarks.replay_fidelity [--seed N] [--jobs-of 120] [--write docs/whatif.md]

First part: jobs of the accuracy benchmark's worlds `native` and `trace` (healthy, and with a fault
that operations show), drawn at random: mean measured step against mean replayed step, and S by
`rankscope whatif` against S by its definition, from what was drawn. Second part: one slow rank in a
job of 64 ranks whose dose makes its steps at least 1.16, 1.40 and 2.03 times as long as the same
job without it takes, against what the replay says. arXiv 2505.05713 reports a median discrepancy of
1.3 % and a 90th percentile of 5.5 % over its jobs, and these three slowdowns on a real one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.cases import HEALTHY, NATIVE, TRACE, Case, cases
from benchmarks.accuracy.judge import REPLAYABLE, answer, imported
from benchmarks.page_part import write_part
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.doses import dosed, step_ns
from sample_traces.generate.tables.write import generate

BEGIN, END = "<!-- benchmarks.replay_fidelity replaces what follows -->", "<!-- end of fidelity -->"
SLOWDOWNS = (1.16, 1.40, 2.03)
SEEDS = 5


def fidelity(case: Case) -> dict[str, Any]:
    """Of one drawn job; raises RuntimeError where it is not replayed."""
    drawn = case.drawn()
    with tempfile.TemporaryDirectory() as folder:
        run, _ = drawn.write(Path(folder))
        if case.world == TRACE:
            run = imported(run, Path(folder) / "runs")
        code, found = answer(["whatif", str(run)])
    if code:
        raise RuntimeError(f"{case.name}: rankscope whatif ended with {code}: {found}")
    return {
        "world": case.world,
        "off": abs(found["fidelity"]),
        "off_S": abs(found["S"] / drawn.true_S - 1),
    }


def injected(wanted: float, seed: int) -> tuple[float, float]:
    """(the slowdown of a job with one slow rank, what the replay says)."""
    healthy = SyntheticJob(64, pp=4, tp=2, num_steps=30, seed=seed)
    rank = int(np.random.default_rng(seed).integers(64))
    slow = dosed(healthy, SyntheticFault("slow_worker", rank, 1.0), wanted)
    job = replace(healthy, faults=(slow,))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        generate(job, run)
        _, found = answer(["whatif", str(run)])
    return float(step_ns(job).mean() / step_ns(healthy).mean()), float(found["S"])


def report(seed: int, found: list[dict[str, Any]], planted: list[tuple[float, float]]) -> str:
    """Two tables."""
    lines = [
        f"Seed {seed}.",
        "",
        "| jobs | number | measured against replayed step: median, 90th percentile, worst | S "
        "against its definition: median, 90th percentile, worst |",
        "|---|---|---|---|",
    ]
    for world in (NATIVE, TRACE):
        own = [row for row in found if row["world"] == world]
        cells = [_spread([row[name] for row in own]) for name in ("off", "off_S")]
        lines.append(f"| {world} | {len(own)} | {' | '.join(cells)} |")
    cells = [_spread([row[name] for row in found]) for name in ("off", "off_S")]
    lines += [f"| all | {len(found)} | {' | '.join(cells)} |", ""]
    lines += ["| a slow rank makes steps so many times as long | by replay |", "|---|---|"]
    lines += [f"| {true:.3f} | {said:.3f} |" for true, said in planted]
    return "\n".join(lines)


def _spread(shares: list[float]) -> str:
    return ", ".join(f"{x:.2%}" for x in (*np.quantile(shares, (0.5, 0.9)), max(shares)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--seed", type=int, default=None)
    add("--jobs-of", type=int, default=120, metavar="N", help="jobs of the first part")
    add("--processes", type=int, default=2)
    add("--write", type=Path, metavar="PAGE", help="write the tables into this page")
    options = parser.parse_args()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    drawn = cases(seed, 8, 40, (*REPLAYABLE, HEALTHY), (NATIVE, TRACE))
    chosen = [case for case in drawn if case.kind in REPLAYABLE][: options.jobs_of]
    with multiprocessing.get_context("forkserver").Pool(options.processes) as pool:
        found = pool.map(fidelity, chosen, chunksize=1)
        planted = [
            row
            for wanted in SLOWDOWNS
            for row in pool.map(partial(injected, wanted), range(seed, seed + SEEDS))
        ]
    text = report(seed, found, planted)
    print(text)
    if options.write is not None:
        write_part(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
