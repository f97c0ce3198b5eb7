"""Runs whose ranks start in phases, and runs that are interrupted and go on. Times in s from T0."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.runs_builder import T0, RunBuilder
from trace_hooks.schema import publish_json, rank_file_name

S = 1_000_000_000
STEP_S = 0.5

Phase = tuple[str, float, str]
"""Phase, seconds, what ran."""


def phases(own: str = "", seconds: float = 0.0, waits: float = 0.0, what: str = "x") -> list[Phase]:
    """A start-up of 5 s whose rank is in the phase `own` for longer, or waits for others."""
    usual = {"imports": 2.0, "hooks": 0.5, "rendezvous": 0.5, "groups": 0.5, "restore": 1.0}
    usual |= {"data": 0.5}
    rows = [
        (phase, length + (seconds if phase == own else 0.0), what if phase == own else phase)
        for phase, length in usual.items()
    ]
    at = next((n for n, row in enumerate(rows) if row[0] == own), len(rows))
    if own and at == len(rows):
        rows.append((own, seconds, what))
    return [*rows, ("communication", waits, "barrier")] if waits else rows


def startup_rows(run: RunBuilder, rank: int, rows: Sequence[Phase], attempt: int = 0) -> float:
    """One stretch after the other from T0; returns where they end, s."""
    at_s = 0.0
    for phase, seconds, what in rows:
        run.add("startup", rank, -1, attempt, ts_ns=T0 + round(at_s * S), dur_ns=round(seconds * S),
                cpu_ns=-1, phase=phase, what=what, how="sampled")  # fmt: skip
        at_s += seconds
    return at_s


def started_run(
    folder: Path, ranks: Mapping[int, Sequence[Phase]], num_steps: int = 6, first_s: float = 1.0
) -> RunBuilder:
    """Ranks that start so, then make steps of STEP_S, the first of `first_s`; none: 0 steps."""
    run = RunBuilder(folder, len(ranks))
    run.group(7, list(ranks), "dp")
    for rank, rows in ranks.items():
        begin_s = startup_rows(run, rank, rows)
        for step in range(num_steps):
            seconds = STEP_S if step else first_s
            run.step(rank, step, begin_s * 1e6, (begin_s + seconds) * 1e6)
            begin_s += seconds
    run.rank_files()
    run.publish()
    return run


INTERRUPTED = ((0, 0, 9, "failed"), (60, 6, 19, None), (160, 16, 29, "finished"))
"""Attempts: begin in s, first and last step, and how their ranks ended. Steps take 4 s, the first
comes 10 s after the begin, and the last sign of life 3 s after the last step.
"""


def interrupted_run(folder: Path, saves: bool = True) -> RunBuilder:
    """Two ranks, three attempts (INTERRUPTED); rank 0 saves for 0.5 s in every fifth step."""
    run = RunBuilder(folder, 2)
    for attempt, (begin_s, first, last, status) in enumerate(INTERRUPTED):
        run.rank_files(attempt)
        end_s = begin_s + 10.0
        for rank in range(2):
            for step in range(first, last + 1):
                at_s = begin_s + 10 + 4 * (step - first)
                end_s = at_s + 4
                run.step(rank, step, at_s * 1e6, end_s * 1e6, attempt=attempt)
                if saves and rank == 0 and step % 5 == 4:
                    run.span(
                        0, step, "checkpoint", (end_s - 0.5) * 1e6, end_s * 1e6, attempt=attempt
                    )
            run.add("heartbeats", rank, last, attempt, ts_ns=T0 + round((end_s + 3) * S))
            end = None
            if status is not None:
                error = "" if status == "finished" else "boom"
                end = {"ts_ns": T0 + round((end_s + 3) * S), "status": status, "error": error}
            _rank_file(run, attempt, rank, begin_s, end)
    run.publish()
    return run


def _rank_file(run: RunBuilder, attempt: int, rank: int, begin_s: float, end: object) -> None:
    path = run.folder / "ranks" / rank_file_name(attempt, rank)
    info = json.loads(path.read_text())
    publish_json(info | {"started_ns": T0 + round(begin_s * S), "end": end}, path)
