"""A small loss of MFU planted into generated jobs: found, named, and not seen in healthy ones.

python -m benchmarks.mfu_decline [--results FILE] [--cases 100] [--unsteady 50] [--steps 400]
python -m benchmarks.mfu_decline --report [--results FILE] [--write docs/mfu.md]

Jobs of 8 ranks (PP 2 x DP 2 x TP 2). Their compute has the noise of recorded healthy jobs of 16
ranks, resampled in blocks of 15 to 60 steps (sample_traces/generate/recorded_noise.py): those next
to the repository, or the .npz files of --noise. A recording whose step time spreads by more than a
tenth (MAD) is unsteady: most of these have steps twice as long as others, in phases. In every
second job a fault begins at a random step between the first and the last quarter; its dose is set
so that the same job, simulated, loses 2.66 % of its MFU. What `rankscope mfu` says of each job is
appended to the results; started again, it goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from app.views.efficiency.mfu import Asked, decline_of
from benchmarks.accuracy.intervals import clopper_pearson
from benchmarks.accuracy.recorded_noise import noise_folder
from benchmarks.page_part import write_part
from benchmarks.result_lines import append, read
from diagnosis.mfu.change_point import smallest_shown
from diagnosis.mfu.comparison import LONG_STEPS
from diagnosis.mfu.explain import named_parts
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.recorded_noise import load_recording, recordings_in
from sample_traces.generate.simulation.draw import draw
from sample_traces.generate.simulation.replay import replay
from sample_traces.generate.tables.write import generate

RESULTS = Path(__file__).resolve().parent / "results" / "mfu-decline.jsonl"
BEGIN, END = "<!-- benchmarks.mfu_decline replaces what follows -->", "<!-- end of decline -->"
LOSS = 0.0266
"""Of the MFU before: Flare's smallest reported regression."""
PEAK_TFLOPS = 300.0
SEED = 70_000
UNSTEADY = 0.1
KINDS = {
    "step_regression": ("compute",),
    "slow_op": ("compute",),
    "slow_worker": ("waiting", "pipeline"),
    "gc_pauses": ("waiting", "pipeline", "gc"),
    "launch_skew": ("waiting", "pipeline", "unseen"),
    "data_loader": ("data",),
    "comm_regression": ("moving_tp", "moving_pp", "moving_dp", "moving_other"),
    "slow_checkpoint": ("checkpoint", LONG_STEPS),
}
"""Planted faults, and the parts of which the greatest one names them."""
_OF_ONE_RANK = ("slow_worker", "slow_checkpoint")
_HALVINGS = 18
_MOST = {"x": 1.0, "ms": 400.0}
"""Of a dose, beyond 1 for factors."""


@cache
def spread_of(recording: str) -> float:
    """Of the step time of a recorded job: 1.5 median absolute deviations of its logarithm."""
    step_S = np.log(np.median(load_recording(recording).step_SR, axis=1))
    return float(1.4826 * np.median(np.abs(step_S - np.median(step_S))))


def job_of(case: int, recordings: Sequence[str], num_steps: int) -> tuple[SyntheticJob, int]:
    """A healthy job, and the step at which a fault is to begin."""
    random = np.random.default_rng([SEED, case])
    first = int(random.integers(num_steps // 4, 3 * num_steps // 4))
    recording = recordings[case % len(recordings)]
    sizes: dict[str, Any] = {"pp": 2, "tp": 2, "num_microbatches": 4, "num_steps": num_steps}
    return SyntheticJob(8, seed=SEED + case, recorded=recording, **sizes), first


def with_loss(job: SyntheticJob, kind: str, first: int) -> SyntheticJob:
    """The job with a fault from step `first` on that takes LOSS of its MFU."""
    fault = SyntheticFault.parse(f"{kind}{'=3' if kind in _OF_ONE_RANK else ''},from={first}")
    usual_ms = _mean_step(job, first)
    is_factor = fault.dose < 20 and kind not in ("gc_pauses", "launch_skew")
    low, high = (1.0, 1.0 + _MOST["x"]) if is_factor else (1e-3, _MOST["ms"])
    for _ in range(_HALVINGS):
        dose = (low + high) / 2
        made = replace(job, faults=(replace(fault, dose=dose),))
        is_more = _mean_step(made, first) > usual_ms / (1 - LOSS)
        low, high = (low, dose) if is_more else (dose, high)
    return replace(job, faults=(replace(fault, dose=high),))


def _mean_step(job: SyntheticJob, first: int) -> float:
    return float(replay(job, draw(job), 0).step_ns[first:].mean())


def judged(job: SyntheticJob) -> dict[str, Any]:
    """What is said of a job."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(job, Path(scratch) / "run")
        with open_run(Path(scratch) / "run") as run:
            asked = Asked(run, 0, PEAK_TFLOPS)
            change = decline_of(asked)
            smallest = smallest_shown(asked.times().work_ms_S)
    found: dict[str, Any] = {"found": change.comparison is not None, "smallest": smallest}
    if change.comparison is not None:
        compared = change.comparison
        found |= {
            "since": compared.before[1] + 1,
            "greatest": LONG_STEPS if change.of_long_steps else (*named_parts(compared), "")[0],
            "is_part": compared.part is not None,
            "causes": [[cause.part, cause.kind, *cause.ranks] for cause in change.causes],
            "lost": (compared.part or compared.lost).points,
            "mfu": compared.mfu_before,
        }
    return found


def run_cases(options: argparse.Namespace) -> None:
    """Every case that the results do not have yet."""
    done = {(row["group"], row["case"]) for row in read(options.results)}
    with noise_folder(options.noise, "resampled_native") as folder:
        every = recordings_in(folder)
        for group, cases in (("steady", 2 * options.cases), ("unsteady", 2 * options.unsteady)):
            chosen = [path for path in every if (spread_of(path) > UNSTEADY) == (group != "steady")]
            for case in range(cases if chosen else 0):
                if (group, case) not in done:
                    row = {"group": group, **one_case(case, chosen, options.steps)}
                    append(options.results, row)
                    print(json.dumps(row), flush=True)


def one_case(case: int, recordings: Sequence[str], num_steps: int) -> dict[str, Any]:
    """A healthy job of an even number, one with a fault of an odd one, both with the same noise."""
    job, first = job_of(case // 2, recordings, num_steps)
    kind = "healthy" if case % 2 == 0 else list(KINDS)[case // 2 % len(KINDS)]
    planted = job if kind == "healthy" else with_loss(job, kind, first)
    about = {"case": case, "kind": kind, "first": first, "recording": Path(job.recorded).stem}
    dose = planted.faults[0].dose if planted.faults else None
    return {**about, "dose": dose, "steps": num_steps, **judged(planted)}


def report(rows: Sequence[dict[str, Any]]) -> str:
    """A table of what was found by kind of fault, and what healthy jobs look like."""
    lines = []
    for group in ("steady", "unsteady"):
        own = [row for row in rows if row["group"] == group]
        if own:
            lines += _group(group, own)
    return "\n".join(lines)


def _group(group: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    recordings = len({row["recording"] for row in rows})
    lines = [
        f"**{group.capitalize()} recordings** ({recordings}), {rows[0]['steps']} steps per job:",
        "",
        "| planted | found | of these, the part is named | steps off, median | MFU lost, median |",
        "|---|---|---|---|---|",
    ]
    planted = [row for row in rows if row["kind"] != "healthy"]
    for kind in (*KINDS, "all"):
        own = [row for row in planted if kind in ("all", row["kind"])]
        if own:
            lines.append(f"| {kind} | {' | '.join(_cells(own))} |")
    healthy = [row for row in rows if row["kind"] == "healthy"]
    false = sum(row["found"] for row in healthy)
    smallest = sorted(row["smallest"] for row in healthy)
    low, high = clopper_pearson(false, len(healthy))
    lines += [
        "",
        f"Of {len(healthy)} healthy jobs {false} have a decline ({low:.1%} to {high:.1%}, 95 % "
        f"interval). The loss that half of such jobs would show is {smallest[0]:.1%} to "
        f"{smallest[-1]:.1%} of a step, median {median(smallest):.1%}.",
        "",
    ]
    return lines


def _cells(rows: Sequence[dict[str, Any]]) -> list[str]:
    found = [row for row in rows if row["found"]]
    named = sum(row["greatest"] in KINDS[row["kind"]] for row in found)
    if not found:
        return [f"0 of {len(rows)}", "", "", ""]
    off = median(abs(row["since"] - row["first"]) for row in found)
    lost = median(row["lost"] / 100 / row["mfu"] for row in found)
    share = f"{len(found)} of {len(rows)}"
    return [share, f"{named} of {len(found)}", f"{off:.0f}", f"{lost:.1%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--results", type=Path, default=RESULTS, help="JSON lines to append to and go on from")
    add("--cases", type=int, default=100, help="planted losses, and as many healthy jobs")
    add("--unsteady", type=int, default=50, help="the same with unsteady recordings")
    add("--steps", type=int, default=400)
    add(
        "--noise",
        type=Path,
        metavar="FOLDER",
        help="recordings (benchmarks.accuracy.recorded_noise)",
    )
    add("--report", action="store_true", help="print the tables of the results")
    add("--write", type=Path, metavar="PAGE", help="... into this page")
    options = parser.parse_args()
    if not options.report:
        run_cases(options)
    text = report(read(options.results))
    print(text)
    if options.write is not None:
        write_part(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
