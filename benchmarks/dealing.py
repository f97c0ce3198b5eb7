"""Sequences dealt evenly: compares the predicted gain with the measured one.

python -m benchmarks.dealing --results FILE [--only LENGTHS ..] [--steps 32] [--seed 5]
python -m benchmarks.dealing --report FILE [--write docs/data-loading.md]

For each distribution of lengths the example job (4 replicas x 4 micro-batches, DDP) computes each
global batch twice: as it was drawn, and in the next step dealt evenly by the job itself.
`diagnosis.loading.balance` sees the steps as drawn alone and says how long they would compute if
dealt evenly. Both are then measured in CPU time of forwards and backwards: the sum over steps of
the longest replica's, and of the longest of the micro-batches that run at the same time. All ranks
share one core: on several, the same work takes less CPU time while other ranks have nothing to do.
Every finished job is appended to the results; started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.result_lines import append, parser_of, read, run_or_report
from diagnosis.loading.balance import QUESTIONS, Balance, balance_of
from ingest.run import open_run

REPO = Path(__file__).resolve().parents[1]
LENGTHS = (
    "uniform,50,1200",
    "uniform,400,5000",
    "lognormal,200,0.6",
    "lognormal,200,1.0",
    "lognormal,200,1.4",
    "lognormal,600,1.0",
    "two,100,6000,0.02",
    "two,100,6000,0.1",
    "two,300,2400,0.3",
    "pareto,60,1.1",
    "pareto,120,1.5",
    "pareto,40,0.8",
    "two,100,8000,0.001",
    "two,100,8000,0.003",
    "two,100,16000,0.002",
    "two,100,16000,0.0006",
    "two,100,16000,0.0004",
    "two,100,32000,0.0002",
)
BEGIN, END = "<!-- benchmarks.dealing replaces what follows -->", "<!-- end of dealing -->"
SIZES = {"nproc": 4, "pp": 1, "dp": 4, "tp": 1, "microbatches": 4, "batch": 1}
MODEL = {"width": 32, "heads": 1, "layers": 2, "data-parallel": "ddp"}


def job(lengths: str, steps: int, seed: int) -> dict[str, Any]:
    """What the job took, and should have taken."""
    folder = Path(tempfile.mkdtemp(prefix="rankscope-dealing-"))
    try:
        options = {**SIZES, **MODEL, "seq": row_of(lengths), "lengths": lengths}
        options |= {"steps": steps, "seed": seed}
        command = [sys.executable, "-m", "sample_traces.jobs.train_3d", "--runs", str(folder)]
        for name, value in {**options, "deal": "alternating"}.items():
            command += [f"--{name}", str(value)]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
        subprocess.run(command, cwd=REPO, env=environ, stdout=subprocess.DEVNULL, check=True)
        (run_folder,) = folder.iterdir()
        with open_run(run_folder) as run:
            tables = {name: run.ask(name, attempt=0) for name in QUESTIONS}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    drawn, balanced = (balance_of(_of_parity(tables, odd)) for odd in (0, 1))
    if drawn is None or balanced is None:
        sys.exit(f"{lengths}: the job left too few steps with lengths and times")
    found: dict[str, Any] = {"lengths": lengths, "seed": seed, "steps": len(drawn.steps)}
    found |= {
        "error": drawn.model.error,
        "microbatches": drawn.of_microbatches,
        "replicas": drawn.of_replicas,
        "measured_microbatches": median(
            float(step.measured_RM.max() / step.measured_RM.mean()) for step in drawn.steps
        ),
    }
    for where, axis in (("at_step", 1), ("at_microbatch", 0)):
        found[f"predicted {where}"] = 1 - (drawn.gain(where) or 0.0)
        found[f"measured {where}"] = took(balanced, axis) / took(drawn, axis)
    return found


def row_of(lengths: str) -> int:
    """Tokens of a row: 8,192, or the power of two into which the longest sequence fits."""
    kind, _, *numbers = lengths.split(",")
    longest = int(numbers[0]) if kind == "two" else 0
    return max(8192, 1 << (longest - 1).bit_length())


def _of_parity(tables: dict[str, pa.Table], odd: int) -> dict[str, pa.Table]:
    """The even or the odd steps, but for the first two, in which everything is made."""
    kept = {}
    for name, table in tables.items():
        kept[name] = table
        if "step" in table.column_names:
            step_N = table.column("step").to_numpy()
            kept[name] = table.filter(pa.array((step_N % 2 == odd) & (step_N > 1)))
    return kept


def took(balance: Balance, axis: int) -> float:
    """Measured ms of all steps: of the longest replica (1), or of the longest of the micro-batches
    that run at the same time (0).
    """
    if axis:
        return float(sum(step.measured_RM.sum(axis=1).max() for step in balance.steps))
    return float(sum(step.measured_RM.max(axis=0).sum() for step in balance.steps))


def off(row: dict[str, Any], where: str) -> float:
    """Relative error of the predicted time."""
    return abs(float(row[f"predicted {where}"] / row[f"measured {where}"]) - 1)


def report(rows: list[dict[str, Any]]) -> str:
    """A table with a row for each distribution."""
    lines = [
        "| lengths | longest micro-batch / mean: modelled, measured | model's error | "
        "step, dealt evenly / as drawn: predicted, measured | error | micro-batches that run at "
        "the same time: predicted, measured | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            row["lengths"],
            f"{row['microbatches']:.1f}, {row['measured_microbatches']:.1f}",
            f"{row['error']:.1%}",
        ]
        for where in ("at_step", "at_microbatch"):
            both = (row[f"predicted {where}"], row[f"measured {where}"])
            cells += [f"{both[0]:.3f}, {both[1]:.3f}", f"{off(row, where):.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    medians = [median(off(row, where) for row in rows) for where in ("at_step", "at_microbatch")]
    uneven = [row["measured_microbatches"] for row in rows]
    lines += [
        "",
        f"Median error of the predicted time over {len(rows)} distributions: {medians[0]:.1%} "
        f"where replicas wait at the end of a step, {medians[1]:.1%} where they wait after each "
        f"micro-batch. The longest micro-batch took {np.min(uneven):.1f} to {np.max(uneven):.1f} "
        "times the mean one (median step of each job).",
    ]
    return "\n".join(lines)


def run(options: argparse.Namespace) -> None:
    """Measure the lengths that are not finished."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    done = {row["lengths"] for row in read(options.results)}
    for lengths in options.only:
        if lengths not in done:
            row = job(lengths, options.steps, options.seed)
            append(options.results, row)
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--only", nargs="+", default=LENGTHS, metavar="LENGTHS", help="as of train_3d --lengths")
    add("--steps", type=int, default=32)
    add("--seed", type=int, default=5)
    run_or_report(parser, run, report, (BEGIN, END))


if __name__ == "__main__":
    main()
