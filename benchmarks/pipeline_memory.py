"""Peaks of memory under pipeline schedules, predicted from a job under 1F1B and measured.

python -m benchmarks.pipeline_memory --results FILE [--only CASE ..]
python -m benchmarks.pipeline_memory --report FILE [--write docs/which-schedule.md]

The example job with one process for each stage, on the CPU. In place of the CUDA allocator's
counters, the hooks read what the system says of the process: resident memory, and its peak. glibc
is told to give back at once what is freed (environment variables MALLOC_*), so that both follow
what tensors take. Each job runs under 1F1B; what rankscope predicts from that run alone stands next
to the peak of each stage under each schedule. Finished cases are appended to the results.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from app.views.whatif.analysis import whatif_of
from benchmarks.result_lines import run_cases
from benchmarks.schedules.__main__ import NAMES
from diagnosis.whatif.schedules.measured import measured
from diagnosis.whatif.schedules.predict import predict
from ingest.run import open_run

REPO = Path(__file__).resolve().parents[1]
BEGIN = "<!-- benchmarks.pipeline_memory replaces what follows -->"
END = "<!-- end of pipeline memory -->"
STEPS = 5
GIVES_BACK = {
    "MALLOC_MMAP_THRESHOLD_": "32768",
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_TOP_PAD_": "0",
    "MALLOC_ARENA_MAX": "1",
}
"""glibc: larger blocks are mappings of their own, which end when they are freed."""


@dataclass(frozen=True)
class Case:
    """Stages, micro-batches, and sequences of a micro-batch."""

    p: int
    m: int
    batch: int

    @property
    def name(self) -> str:
        """In results and tables."""
        return f"p{self.p}-m{self.m}-b{self.batch}"


CASES = (Case(2, 4, 2), Case(2, 8, 2), Case(4, 8, 2), Case(4, 8, 4), Case(4, 16, 2))


def train(options: argparse.Namespace, listener: socket.socket) -> None:
    """A rank of the example job whose hooks count resident memory."""
    from sample_traces.jobs import train_3d
    from trace_hooks.sources.training import action_memory, memory

    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak

    def counters() -> dict[str, int]:
        kib = {
            name: int(value.split()[0])
            for name, _, value in (
                line.partition(":") for line in Path("/proc/self/status").read_text().splitlines()
            )
            if name in ("VmRSS", "VmHWM")
        }
        held, peak = 1024 * kib["VmRSS"], 1024 * kib["VmHWM"]
        return {"allocated": held, "reserved": held, "peak": peak, "retries": 0}

    memory.cuda_counters = counters
    action_memory.allocated = memory.resident_bytes
    train_3d.train(options, listener)


def ran(case: Case, schedule: str, folder: Path) -> Path:
    """Run folder of the job."""
    options: dict[str, Any] = {"nproc": case.p, "pp": case.p, "dp": 1, "tp": 1, "steps": STEPS}
    options |= {"microbatches": case.m, "schedule": schedule, "batch": case.batch, "seq": 256}
    options |= {"layers": 2 * case.p, "width": 128, "runs": folder / schedule}
    command = [sys.executable, "-m", "benchmarks.pipeline_memory", "--job"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
    environ |= GIVES_BACK | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=REPO, env=environ, stdout=subprocess.DEVNULL, check=True)
    (made,) = (folder / schedule).glob("*/")
    return made


def peaks_of(run_folder: Path) -> list[float]:
    """Of each rank, B."""
    with open_run(run_folder) as run:
        rows = run.ask("stage_memory").to_pylist()
    return [float(row["peak_bytes"]) for row in rows]


def measure(case: Case) -> dict[str, Any]:
    """Peaks as predicted from the run under 1F1B, and as measured under each schedule, B."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        took = {}
        for schedule in NAMES:
            made = ran(case, schedule, Path(scratch))
            took[schedule] = peaks_of(made)
            if schedule == "1f1b":
                with open_run(made) as run:
                    answer = whatif_of(run)
                    job = measured(answer.prepared, answer.memory)
        took["1f1b again"] = peaks_of(ran(case, "1f1b", Path(scratch) / "again"))
    assert job.memory is not None
    predicted = {name: predict(job, ours).peak_bytes for name, ours in NAMES.items()}
    kept = job.memory.kept_P.tolist()
    return {"case": case.name, "kept": kept, "predicted": predicted, "took": took}


def report(rows: list[dict[str, Any]]) -> str:
    """A table with a row for each case: the stage whose peak rises most under each schedule."""
    others = [name for name in NAMES if name != "1f1b"]
    lines = [
        f"| case | a micro-batch keeps | 1f1b, once more | {' | '.join(others)} |",
        f"|{'---|' * (3 + len(others))}",
    ]
    errors, shares = [], []
    for row in rows:
        usual, again = row["took"]["1f1b"], row["took"]["1f1b again"]
        noise = max(abs(a / u - 1) for a, u in zip(again, usual, strict=True))
        low, high = min(row["kept"]) / 1e6, max(row["kept"]) / 1e6
        cells = [row["case"], f"{low:.0f} to {high:.0f} MB", f"\u00b1 {noise:.1%}"]
        for name in others:
            took, predicted = row["took"][name], row["predicted"][name]
            found = [p / t - 1 for p, t in zip(predicted, took, strict=True)]
            errors += map(abs, found)
            shares += [
                abs(p - t) / abs(t - u)
                for p, t, u in zip(predicted, took, usual, strict=True)
                if abs(t - u) > 0.1 * u
            ]
            at = max(range(len(took)), key=lambda stage: abs(took[stage] - usual[stage]))
            cells.append(
                f"stage {at}: {usual[at] / 1e6:.0f} to {predicted[at] / 1e6:.0f}, "
                f"{took[at] / 1e6:.0f} MB: {found[at]:+.1%}"
            )
        lines.append(f"| {' | '.join(cells)} |")
    summary = (
        f"{len(errors)} peaks of stages: median error {median(errors):.1%} of the peak, worst "
        f"{max(errors):.1%}."
    )
    if shares:
        summary += (
            f" Where the schedule changed the peak by more than a tenth ({len(shares)} of them), "
            f"the median error is {median(shares):.0%} of the change, the worst {max(shares):.0%}."
        )
    return "\n".join([*lines, "", summary])


def main() -> int:
    if sys.argv[1:2] == ["--job"]:
        from sample_traces.jobs.launch import launch
        from sample_traces.jobs.train_3d import parse_options

        options = parse_options(sys.argv[2:])
        return launch(train, options, options.nproc)
    run_cases(__doc__, {one.name: partial(measure, one) for one in CASES}, report, (BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
