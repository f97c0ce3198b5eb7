"""Run a real 8-rank training job (TP 2 x PP 2 x DP 2 on this machine's CPU) and watch it live."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingest.errors import UserError
from ingest.indexer import Indexer
from ingest.run_files import is_run_folder
from ingest.store import Run
from sample_traces.jobs.faults import KINDS, Fault
from sample_traces.jobs.schedules import NAMES

NUM_RANKS = 8
LOOK_EVERY_S = 0.5
NEWS_EVERY_S = 10.0
"""Something is printed at least this often while nothing happens."""
END_S = 10.0
"""What a stopped job gets to end; its ranks get half of it from their launcher."""
ENDS_ITSELF = ("kill", "hang", "hold-gil")
"""Faults after which the job is expected to fail."""
ASKED_BY = {
    "slow-loader": "data_wait",
    "late-rank": "late_ranks",
    "gc": "\"SELECT rank, step, sum(dur_ns) / 1e6 AS gc_ms FROM spans WHERE kind = 'gc' "
    'GROUP BY ALL ORDER BY gc_ms DESC"',
    "nan": "steps",
    "hang": "marks",
    "hold-gil": "marks",
    "kill": "marks",
}
"""What to ask a run with this fault; slowest_ranks where it is none of these."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope demo`."""
    add = parser.add_argument
    what = f"make something go wrong, such as slow-rank=5,x=1.6,from=8; known: {', '.join(KINDS)}"
    add("--fault", action="append", default=[], metavar="KIND=RANK,...", help=what)
    add("--steps", type=int, default=20, help="optimizer steps (%(default)s)")
    add("--schedule", choices=NAMES, default=NAMES[0], help="pipeline schedule (%(default)s)")
    add("--runs", type=Path, default=Path("runs"), help="folder the run is kept in (%(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Start the job, print a line per step, stop it cleanly; raises UserError."""
    if importlib.util.find_spec("torch") is None:
        raise UserError("the demo trains for real and needs torch: pip install 'rankscope[torch]'")
    faults = _faults(arguments.fault)
    if arguments.steps < 1:
        raise UserError(f"--steps is {arguments.steps}; give a whole number from 1")
    folder = arguments.runs / time.strftime("demo-%Y%m%d-%H%M%S")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be made ({error.strerror}); name another folder with --runs"
        ) from error
    sizes = f"pp 2 x dp 2 x tp 2, {arguments.schedule}"
    print(f"starting {NUM_RANKS} ranks ({sizes}), {folder}", flush=True)
    for fault in faults:
        print(f"fault from step {fault.first_step}: {fault.text}", flush=True)
    with _job(folder, arguments) as job, _interrupts() as interrupts:
        _follow(folder, job, interrupts)
    _judge(folder, job.returncode, faults)
    asked = dict.fromkeys(ASKED_BY.get(fault.kind, "slowest_ranks") for fault in faults)
    print("look with  " + "  or  ".join(
        [f"rankscope info {folder}"]
        + [f"rankscope query {folder} {question}" for question in asked or ["slowest_ranks"]]
    ))  # fmt: skip
    return 0


def _faults(texts: list[str]) -> list[Fault]:
    try:
        faults = [Fault.parse(text) for text in texts if text]
    except ValueError as error:
        raise UserError(str(error)) from error
    for fault in faults:
        if fault.rank is not None and fault.rank >= NUM_RANKS:
            raise UserError(f"fault {fault.kind} names rank {fault.rank} of {NUM_RANKS}")
    return faults


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Ctrl-C as usual, and remembered: a finalizer or a query may swallow the exception."""
    asked: list[int] = []

    def interrupt(number: int, _frame: Any) -> None:
        asked.append(number)
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGINT, interrupt)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _job(folder: Path, arguments: argparse.Namespace) -> Iterator[subprocess.Popen[bytes]]:
    """The training job in processes of its own, ended with all its ranks when the block ends."""
    command = [sys.executable, "-m", "sample_traces.jobs.train_3d", "--nproc", str(NUM_RANKS)]
    command += ["--device", "cpu", "--runs", str(folder.parent), "--steps", str(arguments.steps)]
    command += ["--schedule", arguments.schedule]
    for fault in arguments.fault:
        command += ["--fault", fault]
    environ = os.environ | {"TRACE_HOOKS_RUN": folder.name, "OMP_NUM_THREADS": "1"}
    handler = signal.signal(signal.SIGTERM, _on_terminate)
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield job
    finally:
        _end(job)
        signal.signal(signal.SIGTERM, handler)


def _on_terminate(_signal: int, _frame: Any) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _end(job: subprocess.Popen[bytes]) -> None:
    """Ask the launcher to end its ranks, then end all processes of the job."""
    if job.poll() is None:
        print("stopping the job", flush=True)
        job.terminate()
        try:
            job.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def _follow(folder: Path, job: subprocess.Popen[bytes], interrupts: list[int]) -> None:
    """Print every step once all ranks have finished it, until the job ends."""
    begun_s = told_s = time.monotonic()
    while not is_run_folder(folder):
        if job.poll() is not None:
            return
        if time.monotonic() - told_s > NEWS_EVERY_S:
            told_s = time.monotonic()
            print(f"waiting for the ranks to come up, {told_s - begun_s:.0f} s", flush=True)
        time.sleep(LOOK_EVERY_S)
    print(f"{'step':>4} {'time':>9}  {'slowest rank against its peers':<38} {'hook cost':>9} loss")
    told_s, shown, num_marks = time.monotonic(), -1, 0
    with Indexer(folder) as indexer:
        view = Run(folder)
        while True:
            if interrupts:
                raise KeyboardInterrupt
            ended = job.poll() is not None
            indexer.refresh()
            last = _print_steps(view, shown)
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
    """Print the steps after `after` that all ranks have finished; returns the last one printed."""
    for step in view.ask("steps", step_min=after + 1).to_pylist():
        if step["num_finished"] < NUM_RANKS:
            return after
        after = step["step"]
        slowest = view.ask("slowest_ranks", step_min=after, step_max=after, top=1).to_pylist()
        costs = [row["cost_ratio"] for row in view.ask("hook_cost").to_pylist()]
        known = [cost for cost in costs if cost is not None]
        cost = f"{100 * sum(known) / len(known):.1f} %" if known else "-"
        who = _slowest(slowest[0]) if slowest else "-"
        loss = "-" if step["loss"] is None else f"{step['loss']:.3f}"
        print(f"{after:>4} {step['step_ms']:>6.0f} ms  {who:<38} {cost:>9} {loss}", flush=True)
    return after


def _print_marks(view: Run, num_printed: int) -> int:
    """Print what became known of the ranks besides planted faults; returns the number of marks."""
    marks = view.ask("marks").to_pylist()
    marks = [mark for mark in marks if mark["kind"] != "fault"]
    for mark in marks[num_printed:]:
        print(f"{mark['kind']}: {mark['text']}", flush=True)
    return len(marks)


def _slowest(row: dict[str, Any]) -> str:
    coords = " ".join(f"{axis} {row[axis]}" for axis in ("pp", "dp", "tp"))
    verdict = "" if row["beyond_noise"] else ", within noise"
    return f"rank {row['rank']} ({coords}) {row['slowdown']:.2f}x{verdict}"


def _judge(folder: Path, code: int, faults: list[Fault]) -> None:
    """Say how the job ended; raises UserError where it failed without being told to."""
    if code == 0:
        return
    log = folder / "job.log"
    if any(fault.kind in ENDS_ITSELF for fault in faults):
        print(f"the job ended with code {code}, as its fault made it; its output: {log}")
        return
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise UserError(f"the job failed ({' '.join(last) or f'code {code}'}); see {log}")
