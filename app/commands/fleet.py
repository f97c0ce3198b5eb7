"""What all runs of a folder lose, and to what; which hosts are slow again and again.

Each run is summarised once and its summary stored next to its index; the first call on many runs
takes long, shows its progress, and goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from app import interrupts
from app.analysis.fleet.collected import Collected, collected, complete
from app.analysis.fleet.text import as_lines
from app.commands.progress import ProgressLine, cleared_line
from diagnosis.fleet.fleet import Fleet, fleet
from diagnosis.fleet.hosts import slow_hosts
from diagnosis.fleet.totals import worst_first
from ingest.errors import UserError, printable
from ingest.run import RunStore

MOST_WORST = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rankscope fleet`."""
    parser.add_argument("runs", type=Path, metavar="RUNS", help="a folder of runs, or one run")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for machines")


def run(arguments: argparse.Namespace) -> int:
    """Print what the runs have in common. Raises UserError where the folder has no run."""
    folders = RunStore(arguments.runs).folders()
    if not folders:
        raise UserError(f"{arguments.runs} contains no run; give a folder of runs")
    found = collected(folders)
    with cleared_line() as line:
        complete(found, _Progress(line))
    made = fleet(found.summaries, slow_hosts(found.summaries))
    worst = worst_first(found.summaries)[:MOST_WORST]
    if arguments.json:
        print(json.dumps(as_json(made, found, worst)))
    else:
        print("\n".join(map(printable, as_lines(made, found, worst))))
    return 0


def as_json(made: Fleet, found: Collected, worst: list[tuple[str, float]]) -> dict[str, Any]:
    """The object of `--json`: that of the fleet, its worst runs, and runs without a summary."""
    runs = [
        {"run": name, "lost_hours": hours, "findings": _findings(found, name)}
        for name, hours in worst
    ]
    return made.to_json() | {
        "worst": runs,
        "problems": found.problems,
        "stored_elsewhere": found.elsewhere,
    }


def _findings(found: Collected, name: str) -> list[dict[str, Any]]:
    keys = ("id", "kind", "title", "rank_hours", "share", "first_step", "hosts", "ranks")
    summary = found.summaries[name]
    plain = [{key: getattr(one, key) for key in keys} for one in summary.findings]
    return [one | {"hosts": list(one["hosts"]), "ranks": list(one["ranks"])} for one in plain]


class _Progress:
    """Called before each run with how many are done, how many there are, and its name."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._begun_s = time.monotonic()

    def __call__(self, done: int, total: int, name: str) -> None:
        interrupts.check()  # DuckDB may have taken a Ctrl-C for an error of the run before
        now_s = time.monotonic()
        elapsed_s = now_s - self._begun_s
        self._line.show(now_s, lambda: progress_line(done, total, elapsed_s, name))


def progress_line(done: int, total: int, elapsed_s: float, name: str) -> str:
    """How far it is, and how long the rest takes, as text.

    >>> progress_line(25, 100, 50.0, "llama-7")
    'summarising run 26 of 100, about 150 s left: llama-7'
    """
    left = f", about {elapsed_s / done * (total - done):.0f} s left" if done else ""
    return f"summarising run {done + 1} of {total}{left}: {printable(name)}"
