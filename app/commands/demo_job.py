"""The demo's training job: its processes, its progress on the terminal, how it ended."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from app import interrupts
from app.runs.hub import Hub
from ingest.errors import UserError
from ingest.run import Run
from ingest.run_folder.run_files import is_run_folder
from sample_traces.jobs.faults import Fault

NUM_RANKS = 8
MODEL = ("--batch", "1", "--width", "128", "--seq", "64")
"""Small enough for 8 ranks that share 2 cores with a dashboard and a browser."""
NICENESS = 5
"""Niceness of the ranks: they share their cores with the dashboard and a browser. On Linux it has
an effect only within a session (man 7 sched, autogroups), so the job shares the dashboard's
session."""
LOOK_EVERY_S = 0.25
PRINT_EVERY_S = 2.0
"""Steps are printed at most this often: the queries for it take time from the ranks."""
STATUS_EVERY_S = 10.0
"""While nothing happens, a line is printed this often."""
END_S = 10.0
"""Time for a stopped job to end; its launcher gives the ranks half of it."""
LAST_PASS_S = 10.0
"""Time for the indexer to read the job's last files."""
ENDS_ITSELF = ("kill", "hang", "hold-gil")
"""Faults that are expected to end the job with an error."""


@contextmanager
def training_job(
    folder: Path, arguments: argparse.Namespace, live: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the training job in separate processes; end all its ranks when the block ends.

    `live`: environment that connects it to the dashboard.
    """
    command = [sys.executable, "-m", "sample_traces.jobs.train_3d", "--nproc", str(NUM_RANKS)]
    command += ["--device", "cpu", "--runs", str(folder.parent), "--steps", str(arguments.steps)]
    command += ["--schedule", arguments.schedule, *MODEL, "--nice", str(NICENESS)]
    for fault in arguments.fault:
        command += ["--fault", fault]
    environ = os.environ | {"TRACE_HOOKS_RUN": folder.name, "OMP_NUM_THREADS": "1"} | (live or {})
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,  # Ctrl-C is for the dashboard, which then ends the job
        )
    try:
        yield job
    finally:
        _end(job)


def _end(job: subprocess.Popen[bytes]) -> None:
    """Ask the launcher to end its ranks, then kill the whole job; a second Ctrl-C kills it at
    once.
    """
    if job.poll() is None:
        print("stopping the job", flush=True)
        job.terminate()
        try:
            job.wait(END_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


@dataclass
class _Printed:
    """What has been printed about the run."""

    step: int = -1
    num_marks: int = 0
    version: int = -1
    at_s: float = field(default_factory=time.monotonic)
    """when the last line was printed"""

    def say(self, text: str) -> None:
        """Print a line."""
        self.at_s = time.monotonic()
        print(text, flush=True)

    @property
    def is_quiet(self) -> bool:
        """Whether no line was printed for a while."""
        return time.monotonic() - self.at_s > STATUS_EVERY_S


def follow(hub: Hub, folder: Path, job: subprocess.Popen[bytes]) -> None:
    """Print every step once all ranks have finished it, until the job ends.

    A query that fails or takes too long is tried again; it never ends the job.
    """
    if not _wait_for_ranks(folder, job):
        return
    printed = _Printed()
    printed.say(
        f"{'step':>4} {'time':>9}  {'slowest rank against its peers':<38} {'hook cost':>9} loss"
    )
    problem, asked_s, give_up_s = None, 0.0, math.inf
    while True:
        interrupts.check()
        ended = job.poll() is not None
        if ended:
            give_up_s = min(give_up_s, time.monotonic() + LAST_PASS_S)
        if ended or time.monotonic() - asked_s >= PRINT_EVERY_S:
            asked_s = time.monotonic()
            problem = _print_news(hub, folder.name, printed, ended)
        if ended and (problem is None or time.monotonic() > give_up_s):
            if problem:
                printed.say(f"the last steps could not be printed: {problem}")
            return
        if printed.is_quiet:
            printed.say(f"no new step for {STATUS_EVERY_S:.0f} s, {_why_quiet(printed, problem)}")
        time.sleep(LOOK_EVERY_S)


def _wait_for_ranks(folder: Path, job: subprocess.Popen[bytes]) -> bool:
    """Wait until the run folder exists; False if the job ended before."""
    begun_s, waiting = time.monotonic(), _Printed()
    while not is_run_folder(folder):
        interrupts.check()
        if job.poll() is not None:
            return False
        if waiting.is_quiet:
            waiting.say(f"waiting for the ranks to start, {time.monotonic() - begun_s:.0f} s")
        time.sleep(LOOK_EVERY_S)
    return True


def _print_news(hub: Hub, name: str, printed: _Printed, ended: bool) -> str | None:
    """Print what is new; returns why that was not possible, None if it was."""
    try:
        if ended:
            hub.catch_up(name, LAST_PASS_S)
        view, version = hub.run(name), hub.version(name)
        if not ended:  # the terminal shows the run, as a page does
            hub.look(name, "running")
        if version != printed.version or ended:
            _print_steps(view, printed)
            _print_marks(view, printed)
            printed.version = version
    except (UserError, duckdb.Error, OSError) as error:
        return str(error) or type(error).__name__
    return None


def _why_quiet(printed: _Printed, problem: str | None) -> str:
    last = f"the last was {printed.step}" if printed.step >= 0 else "the first one takes longest"
    return (
        last
        if problem is None
        else f"{last} ({problem}); the job continues, the query is tried again"
    )


def _print_steps(view: Run, printed: _Printed) -> None:
    """Print the steps that all ranks have finished since the last one printed.

    The line of the last step shows the slowest rank over all of them, which takes one query.
    """
    steps = view.ask("steps", step_min=printed.step + 1).to_pylist()
    whole = list(itertools.takewhile(lambda step: step["num_finished"] >= NUM_RANKS, steps))
    if not whole:
        return
    first, last = whole[0]["step"], whole[-1]["step"]
    slowest = view.ask("slowest_ranks", step_min=first, step_max=last, top=1).to_pylist()
    known = [row["cost_ratio"] for row in view.ask("hook_cost").to_pylist()]
    known = [cost for cost in known if cost is not None]
    for step in whole:
        is_last = step is whole[-1]
        who = _slowest(slowest[0]) if slowest and is_last else ""
        cost = f"{100 * sum(known) / len(known):.1f} %" if known and is_last else ""
        loss = "-" if step["loss"] is None else f"{step['loss']:.3f}"
        printed.say(f"{step['step']:>4} {step['step_ms']:>6.0f} ms  {who:<38} {cost:>9} {loss}")
        printed.step = int(step["step"])


def _print_marks(view: Run, printed: _Printed) -> None:
    """Print new marks of the ranks.

    Except planted faults, which were printed before, and the notes of ended capture requests.
    """
    marks = view.ask("marks").to_pylist()
    marks = [mark for mark in marks if mark["kind"] not in ("fault", "note")]
    for mark in marks[printed.num_marks :]:
        printed.say(f"{mark['kind']}: {mark['text']}")
    printed.num_marks = len(marks)


def _slowest(row: dict[str, Any]) -> str:
    coords = " ".join(f"{axis} {row[axis]}" for axis in ("pp", "dp", "tp"))
    verdict = "" if row["beyond_noise"] else ", within noise"
    return f"rank {row['rank']} ({coords}) {row['slowdown']:.2f}x{verdict}"


def judge(folder: Path, code: int, faults: list[Fault]) -> None:
    """Print how the job ended; raises UserError if it failed without a fault that ends it."""
    if code == 0:
        return
    log = folder / "job.log"
    if any(fault.kind in ENDS_ITSELF for fault in faults):
        print(f"the job ended with code {code} because of its fault; its output: {log}")
        return
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise UserError(f"the job failed ({' '.join(last) or f'code {code}'}); see {log}")
