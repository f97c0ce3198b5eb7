"""Pipeline schedules as predicted from a job under 1F1B, and as jobs ran them.

python -m benchmarks.schedules --results FILE [--only CASE ..]
python -m benchmarks.schedules --report FILE [--write docs/which-schedule.md]

sleep-*: real ranks and torch's schedules, but operations sleep for as long as those of a recorded
training took (job.py), stretched so that a forward takes 20 ms on average: the schedule counts, not
the cores. `x` in a case: the last stage takes so many times as long. compute-*: the example job
itself on two ranks, one for each core; its chunks and backwards of weights take what they take.
Each job runs under 1F1B, is predicted from that run alone, and then runs under each schedule.
Finished cases are appended to the results; started again, it goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from app.views.whatif.analysis import whatif_of
from benchmarks.result_lines import run_cases
from diagnosis.whatif.schedules.measured import measured
from diagnosis.whatif.schedules.predict import predict
from ingest.run import open_run
from trace_hooks.schema.reading import read_rows

REPO = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- benchmarks.schedules replaces what follows -->", "<!-- end of schedules -->"
NAMES = {
    "1f1b": "1f1b",
    "gpipe": "gpipe",
    "interleaved": "interleaved",
    "zero-bubble": "interleaved-zb",
    "zbv": "zbv",
}
"""Of the job, and of the prediction."""

FORWARD_S, STEPS, WARM = 0.02, 14, 3
COMPUTE = ("forward", "backward", "wgrad")


@dataclass(frozen=True)
class Case:
    """`slower`: times the last stage takes."""

    kind: str
    p: int
    m: int
    slower: float = 1.0

    @property
    def name(self) -> str:
        """In results and tables."""
        return f"{self.kind}-p{self.p}-m{self.m}" + ("" if self.slower == 1 else f"-x{self.slower}")


CASES = (
    Case("sleep", 2, 4),
    Case("sleep", 4, 4),
    Case("sleep", 4, 8),
    Case("sleep", 4, 16),
    Case("sleep", 4, 8, 1.4),
    Case("sleep", 6, 12),
    Case("compute", 2, 2),
    Case("compute", 2, 4),
    Case("compute", 2, 8),
)


def training(case: Case, schedule: str, folder: Path) -> Path:
    """A run of the example job."""
    options: dict[str, Any] = {"nproc": case.p, "pp": case.p, "dp": 1, "tp": 1}
    options |= {"microbatches": case.m, "schedule": schedule, "steps": STEPS, "runs": folder}
    options |= {"layers": 2 * case.p, "width": 128, "batch": 2, "seq": 256, "workers": 0}
    command = [sys.executable, "-m", "sample_traces.jobs.train_3d"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return _ran(command, folder)


def sleeping(times: dict[str, Any], schedule: str, folder: Path) -> Path:
    """A run whose operations sleep."""
    path = folder / "durations.json"
    path.write_text(json.dumps(times), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.schedules.job", schedule, str(path)]
    return _ran([*command, str(folder / "runs"), str(STEPS)], folder / "runs")


def _ran(command: list[str], runs: Path) -> Path:
    before = set(runs.glob("*/")) if runs.exists() else set()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
    subprocess.run(
        command,
        cwd=REPO,
        env=environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    (made,) = set(runs.glob("*/")) - before
    return made


def durations(run_folder: Path, case: Case) -> dict[str, Any]:
    """CPU time of each forward and backward of a training, stretched; see job.py."""
    cpu_s: dict[tuple[str, int, int, int], float] = defaultdict(float)
    for span in _compute_spans(run_folder):
        at = span["kind"], span["step"], span["rank"], span["microbatch"]
        cpu_s[at] += max(span["cpu_ns"], 0) / 1e9
    found = {
        kind: np.array(
            [
                [[cpu_s[kind, step, rank, i] for i in range(case.m)] for rank in range(case.p)]
                for step in range(WARM, STEPS)
            ]
        )
        for kind in ("forward", "backward")
    }
    stretch = FORWARD_S / float(found["forward"].mean())
    last = np.where(np.arange(case.p) == case.p - 1, case.slower, 1.0)[:, None]
    return {kind: (values_SPM * stretch * last).tolist() for kind, values_SPM in found.items()}


def _compute_spans(run_folder: Path) -> list[dict[str, Any]]:
    """Outermost ones of micro-batches, as the hooks wrote them."""
    return [
        row
        for row in read_rows(run_folder, "spans").to_pylist()
        if row["kind"] in COMPUTE and row["depth"] == 0 and row["microbatch"] >= 0
    ]


def spans_s(run_folder: Path) -> list[float]:
    """Of each step but the first ones: first begin to last end of a forward or backward, s."""
    begin_ns: dict[int, int] = {}
    end_ns: dict[int, int] = {}
    for row in _compute_spans(run_folder):  # one machine, one clock
        step = row["step"]
        begin_ns[step] = min(begin_ns.get(step, row["ts_ns"]), row["ts_ns"])
        end_ns[step] = max(end_ns.get(step, 0), row["ts_ns"] + row["dur_ns"])
    return [(end_ns[step] - begin_ns[step]) / 1e9 for step in sorted(begin_ns)[WARM:]]


def measure(case: Case) -> dict[str, Any]:
    """Predictions from the run under 1F1B, and what each schedule took."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        first = training(case, "1f1b", folder / "train")
        times = durations(first, case) if case.kind == "sleep" else {}

        def ran(schedule: str) -> Path:
            if case.kind == "sleep":
                return sleeping(times, schedule, folder)
            return training(case, schedule, folder / "train")

        took = {}
        for schedule in [name for name in NAMES if name != "1f1b"]:
            took[schedule] = spans_s(ran(schedule))
        again = ran("1f1b")
        took["1f1b again"] = spans_s(again)
        recorded = ran("1f1b")
        took["1f1b"] = spans_s(recorded)
        with open_run(recorded) as run:
            job = measured(whatif_of(run, None, (WARM, STEPS - 1)).prepared)
    predicted = {name: predict(job, ours).expected_s for name, ours in NAMES.items()}
    return {"case": case.name, "predicted": predicted, "took": took}


def report(rows: list[dict[str, Any]]) -> str:
    """A table with a row for each case, and the errors of each kind of case."""
    lines = [
        f"| case | 1F1B once more | {' | '.join(NAMES)} |",
        f"|{'---|' * (2 + len(NAMES))}",
    ]
    errors: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        usual, again = (mean(row["took"][name]) for name in ("1f1b", "1f1b again"))
        cells = [row["case"], f"{again / usual - 1:+.1%}"]
        for name in NAMES:
            took, predicted = mean(row["took"][name]), row["predicted"][name]
            if predicted is None:
                cells.append("not possible")
                continue
            cells.append(f"{predicted:.3f}, {took:.3f} s: {predicted / took - 1:+.1%}")
            errors[row["case"].partition("-")[0]].append(abs(predicted / took - 1))
        lines.append(f"| {' | '.join(cells)} |")
    for kind, found in errors.items():
        lines += [
            "",
            f"{kind}: {len(found)} predictions, median error {median(found):.1%}, "
            f"worst {max(found):.1%}.",
        ]
    return "\n".join(lines)


def main() -> None:
    run_cases(__doc__, {one.name: partial(measure, one) for one in CASES}, report, (BEGIN, END))


if __name__ == "__main__":
    main()
