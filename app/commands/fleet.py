"""What all runs of a folder lose, and to what; which hosts are slow again and again.

Each run is summarised once and its summary stored next to its index; the first call on many runs
takes long, shows its progress, and goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app import interrupts
from app.analysis.fleet.collected import Collected, collected, complete
from app.analysis.fleet.text import as_lines
from diagnosis.fleet.fleet import Fleet, fleet
from diagnosis.fleet.hosts import slow_hosts
from diagnosis.fleet.totals import worst_first
from ingest.errors import UserError, printable
from ingest.run import RunStore

MOST_WORST = 20
_EVERY_S = 0.2
_EVERY_S_IN_LOGS = 10.0
_CLEAR_LINE = "\r\x1b[K"


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
    with _progress() as progress:
        complete(found, progress)
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
    """Which run is being summarised, on stderr: one changing line, in a log a line now and then."""

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._begun_s = time.monotonic()
        # a log shows no progress of what is soon done
        self._shown_s = 0.0 if is_terminal else self._begun_s

    def __call__(self, done: int, total: int, name: str) -> None:
        interrupts.check()  # DuckDB may have taken a Ctrl-C for an error of the run before
        now_s = time.monotonic()
        if now_s - self._shown_s < (_EVERY_S if self._is_terminal else _EVERY_S_IN_LOGS):
            return
        self._shown_s = now_s
        text = progress_line(done, total, now_s - self._begun_s, name)
        if self._is_terminal:
            text = _CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1]
        print(text, end="" if self._is_terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the terminal's line."""
        if self._is_terminal:
            print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


@contextmanager
def _progress() -> Iterator[_Progress]:
    progress = _Progress(sys.stderr.isatty())
    try:
        yield progress
    finally:
        progress.clear()


def progress_line(done: int, total: int, elapsed_s: float, name: str) -> str:
    """How far it is, and how long the rest takes, as text.

    >>> progress_line(25, 100, 50.0, "llama-7")
    'summarising run 26 of 100, about 150 s left: llama-7'
    """
    left = f", about {elapsed_s / done * (total - done):.0f} s left" if done else ""
    return f"summarising run {done + 1} of {total}{left}: {printable(name)}"
