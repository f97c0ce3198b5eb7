"""Runs that pictures.py shows of start-up, goodput and many runs together."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from benchmarks.fleet import made_runs
from benchmarks.random_fleets import fleet_run
from benchmarks.startups.__main__ import launch

NUM_RUNS = 60
BAD_HOST = 0
STARTS = (("fifo", 6.0, "17"), ("none", 0.0, "26"), ("none", 0.0, ""))
"""Plant, how slow it is in s, and the step after which a rank is killed."""


def restarted_run(scratch: Path, path: Path) -> None:
    """Run a real job of four ranks that is killed twice; its first start reads a checkpoint slowly
    on one rank.
    """
    folder = scratch / "restarted"
    folder.mkdir()
    for plant, seconds, kill_at in STARTS:
        code = launch(folder, plant, seconds, steps=20, KILL_AT=kill_at).wait(timeout=300)
        if bool(code) != bool(kill_at):
            raise SystemExit((folder / "log").read_text("utf-8", "replace")[-800:])
    shutil.copytree(folder / "run", path)


def fleet_runs(folder: Path) -> None:
    """Drawn summaries of two jobs; one host is slow in five of the runs in which it takes part."""
    rng = np.random.default_rng(7)
    runs = {}
    for number in range(NUM_RUNS):
        hosts = rng.choice(np.arange(1, 40), 4, replace=False).tolist()
        takes_part = number % 6 == 0
        if takes_part:
            hosts[number // 6 % 4] = BAD_HOST
        slow = [BAD_HOST] if takes_part and number % 12 == 0 else []
        if number % 20 == 7:
            slow = hosts[:1]
        name = f"job{number % 2}-{number:03d}"
        runs[name] = fleet_run(name, number % 2, number, hosts, slow)
    made_runs(folder, runs)
