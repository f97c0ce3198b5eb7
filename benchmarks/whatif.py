"""CPU time and memory of the what-if analysis, from the loaded table to all scenarios.

python benchmarks/whatif.py [--traces FOLDER] [--whole]

Each trace in a separate process, the least of REPEATS runs. Traces: AR, SE and ST of ByteDance's
StragglerAnalysis where FOLDER has them, and a generated 4,096-GPU job (TP 8, PP 8, VPP 2, DP 64,
10 steps, 2.0 M rows). --whole also times `rankscope whatif` on the generated file, import included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from diagnosis.whatif.analysis import prepare, what_if
from diagnosis.whatif.operations import Sizes, dense
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace

MB = 10**6
REPEATS = 5
TRACES = Path(__file__).resolve().parents[2] / "shared/traces/straggler_analysis"
BIG = MegatronJob(pp=8, dp=64, tp=8, vpp=2, num_microbatches=32, num_steps=10, slow=((3, 17, 1.4),))
LOADED_AS = {
    "step": "step",
    "dp_rank": "dp",
    "stage": "stage",
    "rank": "rank",
    "optype": "optype",
    "seq_id": "seq",
    "mc": "chunk",
    "start_ts": "start_s",
    "duration": "duration_s",
}
"""Columns of the file, and of the answer of the question whatif_ops."""


class Measured(NamedTuple):
    """Seconds of CPU: dense arrays, graph and transfers, scenarios; MB before and at the peak."""

    num_rows: int
    dense_s: float
    prepare_s: float
    replay_s: float
    loaded_mb: float
    peak_mb: float
    S: float

    @property
    def total_s(self) -> float:
        """From the loaded table to all scenarios."""
        return self.dense_s + self.prepare_s + self.replay_s


def loaded(path: Path) -> pa.Table:
    table = pq.read_table(path, columns=list(LOADED_AS))
    return table.rename_columns(list(LOADED_AS.values()))


def _elsewhere(call: Callable[[Path], None], path: Path) -> None:
    """In a process of its own: ru_maxrss of a child counts what its parent held when it forked."""
    process = multiprocessing.get_context("spawn").Process(target=call, args=(path,))
    process.start()
    process.join()


def _write_big(path: Path) -> None:
    pq.write_table(straggler_trace(BIG), path)


def measure(path: Path, sizes: Sizes) -> Measured:
    """In a separate process."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_measured, args=(path, sizes, answers))
    process.start()
    answer: Measured = answers.get()
    process.join()
    return answer


def _measured(path: Path, sizes: Sizes, answers: multiprocessing.Queue[Measured]) -> None:
    table = loaded(path)
    loaded_mb = _memory_mb("VmRSS")
    runs = []
    for _ in range(REPEATS):
        marks = [time.process_time()]
        ops = dense(table, sizes)
        marks.append(time.process_time())
        prepared = prepare(ops)
        marks.append(time.process_time())
        metrics = what_if(prepared)
        marks.append(time.process_time())
        spent = [after - before for before, after in pairwise(marks)]
        runs.append(Measured(table.num_rows, *spent, loaded_mb, _memory_mb("VmHWM"), metrics.S))
    answers.put(min(runs, key=lambda run: run.total_s))


def _memory_mb(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError(f"/proc/self/status has no {name}; run this on Linux")


def whole(path: Path) -> None:
    """Time `rankscope whatif` on a file: import, index, question, replay."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from app.cli import main; raise SystemExit(main())",
            "whatif",
            str(path),
            "--json",
        ],
        stdout=subprocess.DEVNULL,
    )
    _, code, usage = os.wait4(process.pid, 0)
    cpu_s = usage.ru_utime + usage.ru_stime
    print(
        f"rankscope whatif on it: exit {code}, {time.perf_counter() - began:.1f} s wall, "
        f"{cpu_s:.1f} s CPU, peak {usage.ru_maxrss * 1024 / MB:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of AR, SE and ST")
    parser.add_argument("--whole", action="store_true", help="also time the command itself")
    arguments = parser.parse_args()
    print(f"{'trace':9}{'rows':>10}  CPU s: arrays  graph  replay   total  MB: loaded  peak  S")
    with tempfile.TemporaryDirectory() as folder:
        jobs = {}
        for path in sorted(arguments.traces.glob("trace-*.parquet")):
            trial = path.stem.removeprefix("trace-")
            jobs[trial] = (path, yaml.safe_load((path.parent / f"meta-{trial}.yaml").read_text()))
        big = Path(folder) / "trace-big.parquet"
        _elsewhere(_write_big, big)
        (big.parent / "meta-big.yaml").write_text(yaml.safe_dump(BIG.metadata))
        jobs["4096 GPUs"] = (big, BIG.metadata)
        for name, (path, meta) in jobs.items():
            sizes = Sizes(meta["dp_size"], meta["pp_size"], meta["dsp_size"])
            one = measure(path, sizes)
            print(
                f"{name:9}{one.num_rows:>10,}{one.dense_s:>15.3f}{one.prepare_s:>7.3f}"
                f"{one.replay_s:>8.3f}{one.total_s:>8.3f}{one.loaded_mb:>12.0f}{one.peak_mb:>6.0f}"
                f"  {one.S:.4f}"
            )
        if arguments.whole:
            whole(big)


if __name__ == "__main__":
    main()
