"""Slow starts planted in real jobs of four ranks, and a job that is killed and restarted.

python -m benchmarks.startups [--only PLANT ...] [--seconds 8] [--repeat 1]
    [--write docs/goodput.md]

Each job runs under torchrun with one part of its start-up made slow on one rank (job.py); the
reader looks at its run folder once a second meanwhile. Prints, for each: whether the finding names
the right rank and phase and no other, how long after the first step it does so, whether it did so
before, what share of the start-up is recorded, and what it says was lost. Then the ledger of a job
that is killed twice, against what is known of it. --write puts the tables into a page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from app.views.efficiency.goodput import goodput_of
from app.views.efficiency.startup import Startup, startup_of
from benchmarks.page_part import write_part
from diagnosis.detectors import slow_startup
from diagnosis.findings import Finding
from ingest.errors import UserError
from ingest.run import Run, open_run

JOB = Path(__file__).with_name("job.py")
REPO = Path(__file__).resolve().parents[2]
RANKS, SLOW_RANK, LIMIT_S = 4, 2, 200.0
BEGIN = "<!-- benchmarks.startups replaces what follows -->"
END = "<!-- up to here -->"

PLANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "import": ("a slow import before the hooks start", ("before",)),
    "late-import": ("a slow import after the hooks started", ("imports",)),
    "fifo": ("a checkpoint that comes slowly through a pipe", ("restore",)),
    "disk": ("torch.load from a slow disk", ("restore",)),
    "group": ("something slow inside new_group", ("groups",)),
    "groups": ("400 process groups, on every rank", ("groups",)),
    "model": ("a layer that is slow to make", ("model",)),
    "data": ("a slow first batch", ("data",)),
    "own": ("a slow function of the job", ("other",)),
    "none": ("nothing", ()),
}
"""What is slow, and phases in which that is right."""


@dataclass
class Seen:
    """What the reader saw of one job."""

    plant: str
    before_s: float | None = None  # until the first step ended, when it was first named
    after_s: float | None = None  # from then on
    findings: list[Finding] = field(default_factory=list)
    startup: Startup | None = None

    @property
    def is_right(self) -> bool:
        """Rank and phase, and nothing else; of a job without a plant: nothing."""
        _, phases = PLANTS[self.plant]
        wanted = [] if not phases or self.plant == "groups" else [SLOW_RANK]
        named = [place.rank for finding in self.findings for place in finding.culprits]
        found = [row["phase"] for row in self.startup.slow] if self.startup else []
        if self.plant == "groups":
            return not named and bool(self.startup and self.startup.groups)
        return named == wanted and found == list(phases)


def launch(
    folder: Path, plant: str, seconds: float, steps: int, **environ: str
) -> subprocess.Popen[bytes]:
    """Start the job in a folder of its own."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 1))
    torch.save(model.state_dict(), folder / "checkpoint.pt")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
    clean |= {"TRACE_HOOKS_FOLDER": str(folder), "TRACE_HOOKS_RUN": "run", "OMP_NUM_THREADS": "1"}
    clean |= {"PYTHONPATH": str(REPO), **environ}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(RANKS), str(JOB)]
    command += [plant, str(SLOW_RANK), str(seconds), str(folder), str(steps)]
    log = (folder / "log").open("wb")
    return subprocess.Popen(command, env=clean, stdout=log, stderr=log)


def findings_of(run: Run) -> list[Finding]:
    """What slow_startup finds now."""
    verdict = slow_startup.detect({name: run.ask(name) for name in slow_startup.QUESTIONS}, 0)
    return list(verdict.findings) if verdict else []


def first_step_ended_s(run: Run) -> float | None:
    """Unix s at which the last rank's first step ended; None before all have one."""
    text = (
        "SELECT count(*) AS n, max(ended) AS ended FROM (SELECT rank, min(start_ns + dur_ns) AS"
        " ended FROM step_rows GROUP BY rank)"
    )
    (row,) = run.index_rows(text)
    return row["ended"] / 1e9 if row["n"] == RANKS else None


def watched(plant: str, seconds: float) -> Seen:
    """Run one job and look at it once a second; raises UserError where it does not end well."""
    seen, first_s = Seen(plant), None
    with tempfile.TemporaryDirectory(prefix="rankscope-startups-") as name:
        folder = Path(name)
        job = launch(folder, plant, seconds, steps=60)
        until_s = time.monotonic() + LIMIT_S
        while job.poll() is None and time.monotonic() < until_s:
            time.sleep(1.0)
            if (folder / "run" / "run.json").exists():
                with open_run(folder / "run") as run:
                    first_s = first_s or (time.time() if findings_of(run) else None)
        if job.poll() is None:
            job.kill()
        if job.wait() != 0:
            end = (folder / "log").read_text(encoding="utf-8", errors="replace")[-800:]
            raise UserError(f"the job {plant} ended with {job.returncode}; its last lines: {end}")
        with open_run(folder / "run") as run:
            seen.findings, seen.startup = findings_of(run), startup_of(run, None)
            ended_s = first_step_ended_s(run)
    if first_s is not None and ended_s is not None:
        seen.before_s = ended_s - first_s if first_s < ended_s else None
        seen.after_s = max(first_s - ended_s, 0.0)
    return seen


def table(all_seen: list[Seen]) -> str:
    """A line for each job."""
    lines = [
        "| slow | named | found it cost | named after the first step | named before its end |"
        " start-up | recorded |",
        "|---|---|---|---|---|---|---|",
    ]
    for seen in all_seen:
        assert seen.startup is not None
        lost = [row["cost_s"] for row in seen.startup.slow]
        if seen.startup.groups:
            lost.append(seen.startup.groups["seconds"])
        cells = (
            PLANTS[seen.plant][0],
            "right" if seen.is_right else "WRONG",
            f"{lost[0]:.1f} s" if lost else "-",
            "-"
            if seen.after_s is None
            else "at once"
            if not seen.after_s
            else f"{seen.after_s:.1f} s",
            "no" if seen.before_s is None else f"{seen.before_s:.1f} s before",
            f"{seen.startup.seconds:.1f} s",
            f"{100 * (seen.startup.recorded or 0):.1f} %",
        )
        lines.append(f"| {' | '.join(cells)} |")
    least = min(seen.startup.recorded or 0.0 for seen in all_seen if seen.startup)
    right = sum(seen.is_right for seen in all_seen)
    lines.append("")
    lines.append(f"{right} of {len(all_seen)} right; at least {100 * least:.1f} % recorded.")
    return "\n".join(lines)


def ledger() -> str:
    """A job that loses a rank after step 17, is started again, loses one after step 26, and then
    makes its 20 steps from the newest save on. It saves each tenth step.

    Each start is a torchrun of its own, as a scheduler requeues a job: where torchrun itself
    restarts workers, gloo of torch 2.13 finds the addresses of the last ones, with and without
    hooks.
    """
    with tempfile.TemporaryDirectory(prefix="rankscope-startups-") as name:
        folder = Path(name)
        begun_s = time.monotonic()
        for kill_at in ("17", "26", ""):
            code = launch(folder, "none", 0.0, steps=20, KILL_AT=kill_at).wait(timeout=LIMIT_S)
            if bool(code) != bool(kill_at):
                raise UserError((folder / "log").read_text("utf-8", "replace")[-800:])
        took_s = time.monotonic() - begun_s
        with open_run(folder / "run") as run:
            goodput = goodput_of(run)
    assert goodput is not None
    lines = [
        "| attempt | ended | steps | kept | repeated |"
        + "".join(f" {goodput.words[p]} |" for p in goodput.parts)
    ]
    lines.append("|---|---|---|---|---|" + "---|" * len(goodput.parts))
    starts = [row["first_step"] for row in goodput.attempts]
    for row, then in zip(goodput.attempts, [*starts[1:], None], strict=True):
        last = row["last_step"] + 1
        kept = (last if then is None else min(then, last)) - row["first_step"]
        parts = "".join(f" {row['parts'][part]:.1f} s |" for part in goodput.parts)
        steps = f"{row['first_step']} to {row['last_step']}"
        cells = (row["attempt"], row["ended"], steps, kept, row["num_steps"] - kept)
        lines.append(f"| {' | '.join(map(str, cells))} |{parts}")
    share = goodput.effective_share or 0.0
    unaccounted = sum(row["unaccounted_s"] for row in goodput.attempts)
    lines += [
        "",
        f"{100 * share:.1f} % of {goodput.wall_s:.1f} s was productive; the three commands took "
        f"{took_s:.1f} s by a clock outside of them. In no part: {unaccounted:.2f} s. "
        + " ".join(goodput.says),
    ]
    return "\n".join(lines)


def conditions() -> Mapping[str, str]:
    """What the figures depend on."""
    return {
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--only", nargs="+", choices=PLANTS, default=list(PLANTS))
    add("--seconds", type=float, default=8.0, help="how slow (default: %(default)s)")
    add("--repeat", type=int, default=1, help="jobs of each (default: %(default)s)")
    add("--write", type=Path, metavar="PAGE", help="put the tables into this page")
    options = parser.parse_args()
    all_seen = []
    for plant in options.only * options.repeat:
        seen = watched(plant, options.seconds)
        all_seen.append(seen)
        texts = "; ".join(finding.text for finding in seen.findings) or "nothing"
        print(f"{plant}: {'right' if seen.is_right else 'WRONG'}: {texts}", flush=True)
    known = ", ".join(f"{name} {value}" for name, value in conditions().items())
    text = f"{RANKS} ranks, {options.seconds:g} s slow, {known}.\n\n{table(all_seen)}\n\n{ledger()}"
    print(text)
    if options.write:
        write_part(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
