"""Run a real 8-rank training job (TP 2 x PP 2 x DP 2 on this machine's CPU) and watch it live.

With --replay it trains nothing and opens a recorded run with a slow rank, without torch.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from app import interrupts
from app.settings import DEFAULT_PORT, Settings
from app.view_state import View
from ingest.errors import UserError
from ingest.process_tuning import freeze_loaded
from sample_traces import RECORDED
from sample_traces.jobs.faults import KINDS, Fault
from sample_traces.jobs.schedules import NAMES
from trace_hooks.protocol.server_address import SERVER, TOKEN

if TYPE_CHECKING:
    from app.runs.hub import Hub

NUM_RANKS = 8
STATISTICS = "TRACE_HOOKS_STATISTICS"
INCIDENT = RECORDED / "slow_rank"
"""The run that --replay opens."""
STARTING = "the ranks are starting, which takes up to half a minute; this page opens automatically"
QUERY_FOR = {
    "slow-loader": "data_wait",
    "late-rank": "late_ranks",
    "gc": "\"SELECT rank, step, sum(dur_ns) / 1e6 AS gc_ms FROM spans WHERE kind = 'gc' "
    'GROUP BY ALL ORDER BY gc_ms DESC"',
    "nan": "steps",
    "hang": "marks",
    "hold-gil": "marks",
    "kill": "marks",
}
"""Query that shows this kind of fault; slowest_ranks for all others."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope demo`."""
    add = parser.add_argument
    what = f"plant a fault, such as slow-rank=5,x=1.6,from=8; known: {', '.join(KINDS)}"
    add("--fault", action="append", default=[], metavar="KIND=RANK,...", help=what)
    add("--steps", type=int, default=40, help="optimizer steps (default: %(default)s)")
    what = "pipeline schedule (default: %(default)s)"
    add("--schedule", choices=NAMES, default=NAMES[0], help=what)
    what = "folder of runs to write into (default: %(default)s)"
    add("--runs", type=Path, default=Path("runs"), help=what)
    add("--replay", action="store_true", help="open a recorded run instead; needs no torch")
    what = f"port of the dashboard, 0: any free one (default: {DEFAULT_PORT} or the next free one)"
    add("--port", type=int, help=what)
    add("--no-browser", action="store_true", help="do not open the browser")
    add("--keep", action="store_true", help="keep serving after the job, as on a terminal")


def run(arguments: argparse.Namespace) -> int:
    """Start the dashboard and the job, print a line per step, stop both; raises UserError."""
    faults = _checked(arguments)
    if arguments.replay:
        with tempfile.TemporaryDirectory(prefix="rankscope-replay-") as temporary:
            shutil.copytree(INCIDENT, Path(temporary) / INCIDENT.name)
            with _dashboard(arguments, Path(temporary), INCIDENT.name):
                return _serve_on()
    folder = arguments.runs / time.strftime("demo-%Y%m%d-%H%M%S")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f"cannot create {folder} ({error.strerror}); give another folder with --runs"
        ) from error
    with _dashboard(arguments, arguments.runs, folder.name) as (hub, live):
        _train(arguments, hub, folder, faults, live)
        if arguments.keep or sys.stdout.isatty():
            print("the job has ended; the dashboard stays until Ctrl-C", flush=True)
            return _serve_on()
    return 0


def _checked(arguments: argparse.Namespace) -> list[Fault]:
    """The faults to plant; raises UserError for invalid arguments."""
    if arguments.replay and arguments.fault:
        raise UserError("--replay opens a recorded run; leave out --fault or --replay")
    if not arguments.replay and importlib.util.find_spec("torch") is None:
        raise UserError(
            "the demo trains for real and needs torch: pip install 'rankscope[torch]'; "
            "without it, rankscope demo --replay shows a recorded run"
        )
    if arguments.steps < 1:
        raise UserError(f"--steps is {arguments.steps}; give a whole number from 1")
    try:
        faults = [Fault.parse(text) for text in arguments.fault if text]
    except ValueError as error:
        raise UserError(str(error)) from error
    for fault in faults:
        if fault.rank is not None and fault.rank >= NUM_RANKS:
            raise UserError(
                f"fault {fault.kind} names rank {fault.rank} of {NUM_RANKS}; give a rank from 0 to "
                f"{NUM_RANKS - 1}"
            )
        if fault.first_step >= arguments.steps:
            raise UserError(
                f"fault {fault.kind} begins in step {fault.first_step} and the last step is "
                f"{arguments.steps - 1}; raise --steps or choose an earlier step"
            )
    return faults


@contextmanager
def _dashboard(
    arguments: argparse.Namespace, runs: Path, name: str
) -> Iterator[tuple[Hub, dict[str, str]]]:
    """Serve a folder of runs; print the address of the run `name` and open it in a browser.

    Yields the hub and the environment of a job that connects to this server.
    """
    from app.runs.hub import Hub  # after the checks: the server takes a second to import
    from app.serving import leave, running, take_port

    try:
        port = DEFAULT_PORT if arguments.port is None else arguments.port
        settings = Settings(port=port, job_token=secrets.token_urlsafe(24))
    except ValueError as error:
        raise UserError(str(error)) from error
    listener = take_port(settings, or_next=arguments.port is None)
    hub = Hub(runs)
    hub.expect(name, STARTING)
    arguments.leave = leave
    with _terminable(), running(hub, settings, listener):
        port = listener.getsockname()[1]
        url = settings.url(port).rstrip("/") + View(name).url()
        print(f"dashboard: {url}", flush=True)
        freeze_loaded()
        if not arguments.no_browser and _has_display():
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        yield (
            hub,
            {
                SERVER: settings.job_server(port),
                TOKEN: settings.job_token,
                "TRACE_HOOKS_ALLOW_CONTENT": "1",
                "TRACE_HOOKS_ALLOW_PERTURBATION": "1",
                STATISTICS: os.environ.get(STATISTICS, "10"),
            },
        )


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the block as an exception does, so that job and server are stopped."""

    def on_terminate(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    handler = signal.signal(signal.SIGTERM, on_terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def _has_display() -> bool:
    """Whether a browser would open on the user's own screen."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def _serve_on() -> int:
    """Wait for Ctrl-C."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        interrupts.forget()
    return 0


def _train(
    arguments: argparse.Namespace, hub: Hub, folder: Path, faults: list[Fault], live: dict[str, str]
) -> None:
    from app.commands.demo_job import follow, judge, training_job

    sizes = f"pp 2 x dp 2 x tp 2, {arguments.schedule}"
    print(f"starting {NUM_RANKS} ranks ({sizes}), {folder}", flush=True)
    for fault in faults:
        print(f"fault from step {fault.first_step}: {fault.text}", flush=True)
    with training_job(folder, arguments, live) as job:
        follow(hub, folder, job)
    judge(folder, job.returncode, faults)
    queries = dict.fromkeys(QUERY_FOR.get(fault.kind, "slowest_ranks") for fault in faults)
    print(
        "inspect it with  "
        + "  or  ".join(
            [f"rankscope info {folder}"]
            + [f"rankscope query {folder} {query}" for query in queries or ["slowest_ranks"]]
        )
    )
