"""The demo's training job: its processes, what is printed of it, how it ended."""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app import interrupts
from app.hub import Hub
from ingest.errors import UserError
from ingest.run_files import is_run_folder
from ingest.store import Run
from sample_traces.jobs.faults import Fault

NUM_RANKS = 8
MODEL = ("--batch", "1", "--width", "128", "--seq", "64")
"""Small enough that 8 ranks get on where they share 2 cores with a dashboard and a browser."""
BEHIND = 5
"""Niceness of the ranks: they share their cores with the dashboard and a browser. On Linux it
counts within a session (man 7 sched, autogroups), so the job is in that of the dashboard."""
LOOK_EVERY_S = 0.25
PRINT_EVERY_S = 2.0
"""Steps are printed this often at most: what is asked for it is time that the ranks lose."""
NEWS_EVERY_S = 10.0
"""Something is printed at least this often while nothing happens."""
END_S = 10.0
"""What a stopped job gets to end; its ranks get half of it from their launcher."""
FIRST_INDEX_S = 60.0
LAST_PASS_S = 10.0
"""What the indexer gets to take in what the job wrote last."""
ENDS_ITSELF = ("kill", "hang", "hold-gil")
"""Faults after which the job is expected to fail."""


@contextmanager
def training_job(
    folder: Path, arguments: argparse.Namespace, live: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The training job in processes of its own, ended with all its ranks when the block ends.

    `live`: environment that lets the dashboard look into it.
    """
    command = [sys.executable, "-m", "sample_traces.jobs.train_3d", "--nproc", str(NUM_RANKS)]
    command += ["--device", "cpu", "--runs", str(folder.parent), "--steps", str(arguments.steps)]
    command += ["--schedule", arguments.schedule, *MODEL, "--nice", str(BEHIND)]
    for fault in arguments.fault:
        command += ["--fault", fault]
    environ = os.environ | {"TRACE_HOOKS_RUN": folder.name, "OMP_NUM_THREADS": "1"} | (live or {})
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            process_group=0,  # Ctrl-C is for the dashboard, which then ends the job
        )  # fmt: skip
    try:
        yield job
    finally:
        _end(job)


def _end(job: subprocess.Popen[bytes]) -> None:
    """Ask the launcher to end its ranks, then end all of the job; asked twice: at once."""
    if job.poll() is None:
        print("stopping the job", flush=True)
        job.terminate()
        try:
            job.wait(END_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def follow(hub: Hub, folder: Path, job: subprocess.Popen[bytes]) -> None:
    """Print every step once all ranks have finished it, until the job ends."""
    begun_s = told_s = time.monotonic()
    while not is_run_folder(folder):
        interrupts.check()
        if job.poll() is not None:
            return
        if time.monotonic() - told_s > NEWS_EVERY_S:
            told_s = time.monotonic()
            print(f"waiting for the ranks to come up, {told_s - begun_s:.0f} s", flush=True)
        time.sleep(LOOK_EVERY_S)
    print(f"{'step':>4} {'time':>9}  {'slowest rank against its peers':<38} {'hook cost':>9} loss")
    told_s, shown, num_marks, version, asked_s = time.monotonic(), -1, 0, -1, 0.0
    view = hub.run(folder.name, wait_s=FIRST_INDEX_S)
    while True:
        interrupts.check()
        ended = job.poll() is not None
        if ended:
            hub.catch_up(folder.name, LAST_PASS_S)
        newest = hub.version(folder.name)
        last = shown
        is_due = time.monotonic() - asked_s >= PRINT_EVERY_S
        if (newest != version and is_due) or ended:
            asked_s = time.monotonic()
            version, last = newest, _print_steps(view, shown)
            num_marks = _print_marks(view, num_marks)
        if last > shown:
            told_s, shown = time.monotonic(), last
        elif time.monotonic() - told_s > NEWS_EVERY_S:
            told_s = time.monotonic()
            last_one = f"the last was {shown}" if shown >= 0 else "the first one takes longest"
            print(f"no new step for {NEWS_EVERY_S:.0f} s, {last_one}", flush=True)
        if ended:
            return
        time.sleep(LOOK_EVERY_S)


def _print_steps(view: Run, after: int) -> int:
    """Print the steps after `after` that all ranks have finished; returns the last one printed.

    Who was slowest is told of the last of them, over all of them: it is asked once.
    """
    steps = view.ask("steps", step_min=after + 1).to_pylist()
    whole = list(itertools.takewhile(lambda step: step["num_finished"] >= NUM_RANKS, steps))
    if not whole:
        return after
    first, last = whole[0]["step"], whole[-1]["step"]
    slowest = view.ask("slowest_ranks", step_min=first, step_max=last, top=1).to_pylist()
    known = [row["cost_ratio"] for row in view.ask("hook_cost").to_pylist()]
    known = [cost for cost in known if cost is not None]
    for step in whole:
        is_last = step is whole[-1]
        who = _slowest(slowest[0]) if slowest and is_last else ""
        cost = f"{100 * sum(known) / len(known):.1f} %" if known and is_last else ""
        loss = "-" if step["loss"] is None else f"{step['loss']:.3f}"
        print(
            f"{step['step']:>4} {step['step_ms']:>6.0f} ms  {who:<38} {cost:>9} {loss}", flush=True
        )
    return int(last)


def _print_marks(view: Run, num_printed: int) -> int:
    """Print what became known of the ranks; returns the number of marks.

    Not planted faults, told before, nor what each rank notes at the end of each watch.
    """
    marks = view.ask("marks").to_pylist()
    marks = [mark for mark in marks if mark["kind"] not in ("fault", "note")]
    for mark in marks[num_printed:]:
        print(f"{mark['kind']}: {mark['text']}", flush=True)
    return len(marks)


def _slowest(row: dict[str, Any]) -> str:
    coords = " ".join(f"{axis} {row[axis]}" for axis in ("pp", "dp", "tp"))
    verdict = "" if row["beyond_noise"] else ", within noise"
    return f"rank {row['rank']} ({coords}) {row['slowdown']:.2f}x{verdict}"


def judge(folder: Path, code: int, faults: list[Fault]) -> None:
    """Say how the job ended; raises UserError where it failed without being told to."""
    if code == 0:
        return
    log = folder / "job.log"
    if any(fault.kind in ENDS_ITSELF for fault in faults):
        print(f"the job ended with code {code}, as its fault made it; its output: {log}")
        return
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise UserError(f"the job failed ({' '.join(last) or f'code {code}'}); see {log}")
