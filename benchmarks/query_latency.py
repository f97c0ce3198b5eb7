"""How fast the main questions answer on a synthetic run, and how long its index takes.

python benchmarks/query_latency.py [--ranks 64] [--steps 20] [--pp 4] [--tp 4] [--repeats 20]

Generates the run in a temporary folder, indexes it from scratch, then asks each question `repeats`
times on one open run and prints p50, p95 and the rows of the answer. Opening the run (a fresh
process's first step) is measured the same way.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ingest.index.indexer import Indexer
from ingest.run import Run, open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate

COLUMNS = "{:34} {:>9} {:>9} {:>9}"


def measured_ms(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """p50 and p95 of the wall time of a call, after one that warms up."""
    call()
    times_ms = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times_ms.append((time.perf_counter() - begun) * 1e3)
    p50, p95 = np.percentile(times_ms, [50, 95])
    return float(p50), float(p95)


def open_and_close(folder: Path) -> None:
    with open_run(folder) as run:
        _ = run.snapshot


def questions(run: Run, last_step: int) -> dict[str, Callable[[], int]]:
    """The questions: what a page asks when it opens, and one of your own."""
    low = max(last_step - 9, 0)
    group = run.sql("SELECT group_id, seq FROM collectives LIMIT 1").to_pylist()
    member = group[0] if group else {"group_id": 1, "seq": 0}
    sql = "SELECT kind, count(*) AS n, sum(dur_ns) AS dur_ns FROM spans GROUP BY kind"
    return {
        "run_summary": lambda: run.ask("run_summary").num_rows,
        "steps": lambda: run.ask("steps").num_rows,
        "heat_map, all steps": lambda: run.ask("heat_map", metric="compute").num_rows,
        "grid, 10 steps": lambda: run.ask("grid", step_min=low).num_rows,
        "slowest_ranks, 10 steps": lambda: run.ask("slowest_ranks", step_min=low).num_rows,
        "late_ranks, 10 steps": lambda: run.ask("late_ranks", step_min=low).num_rows,
        "comm_by_axis": lambda: run.ask("comm_by_axis").num_rows,
        "coverage": lambda: run.ask("coverage").num_rows,
        "rank_timeline, one step": lambda: (
            run.ask("rank_timeline", rank=1, step=last_step).num_rows
        ),
        "rank_timeline, all steps": lambda: run.ask("rank_timeline", rank=1).num_rows,
        "collective_members": lambda: run.ask("collective_members", **member).num_rows,
        "SQL: count and sum of all spans": lambda: run.sql(sql).num_rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("ranks", 64), ("steps", 20), ("pp", 4), ("tp", 4), ("repeats", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    slow = SyntheticFault("slow_worker", 1, 1.3, first_step=options.steps // 2)
    job = SyntheticJob(options.ranks, options.pp, options.tp, options.steps, faults=(slow,))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        num_spans = generate(job, folder)
        begun = time.perf_counter()
        with Indexer(folder) as indexer:
            indexer.refresh()
        print(
            f"{options.ranks} ranks, {options.steps} steps, {num_spans} spans; "
            f"index from scratch {time.perf_counter() - begun:.1f} s"
        )
        time.sleep(1.1)  # a folder that has just changed is looked at again
        print(COLUMNS.format("question", "p50 ms", "p95 ms", "rows"))
        opened = measured_ms(lambda: open_and_close(folder), options.repeats)
        print(COLUMNS.format("open the run", *(f"{ms:.1f}" for ms in opened), ""))
        with open_run(folder) as run:
            for name, call in questions(run, options.steps - 1).items():
                times = measured_ms(call, options.repeats)
                print(COLUMNS.format(name, *(f"{ms:.1f}" for ms in times), call()))


if __name__ == "__main__":
    main()
