"""gc_pauses: Python's garbage collector stops a rank in the middle of a step, and all wait.

Each step costs the job its longest pause. Collections of a job usually move: another rank in each
step; one rank is named only where it has the longest pause in at least 4 of 5 steps.

Source: MegaScale (2402.15627) and the what-if study (2505.05713) found it in
production. Assumes: collections are recorded (callbacks of the gc module), and pauses of different
ranks in one step do not overlap less than the longest alone shows: the cost is a lower bound. Known
false positives: none where pauses are what they are called; a job that collects on purpose on all
ranks at once pays for it, too. Blind spots: pauses now and then, which fill no 4 steps. Cost: one
pass over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from diagnosis.findings import Finding, NotEnoughData, Verdict
from diagnosis.statistics.episodes import Episode, episodes
from diagnosis.statistics.late_ranks import STEADY_SHARE
from diagnosis.statistics.phase_findings import Lost, Words, finding_of, steps_missing
from diagnosis.statistics.phase_times import MIN_EXCESS, PhaseTimes, phase_times
from diagnosis.statistics.rank_tables import Floats
from diagnosis.statistics.straggler_cells import CELLS

NAME = "gc_pauses"
KINDS = ("gc_pauses",)
QUESTIONS = ("rank_phases", "rank_places")


def detect(tables: Mapping[str, pa.Table], attempt: int) -> Verdict | None:
    """Verdict on the steps in `tables`: answers of QUESTIONS; None of traces without collections
    of their own (diagnosis/detectors/gc_pauses_of_cells.py).
    """
    if CELLS in tables:
        return None
    times = phase_times(tables)
    if missing := steps_missing(NAME, times.step_S.size):
        return Verdict(NAME, not_enough=missing)
    gc_RS = np.nan_to_num(times.phases["gc"])
    if not (gc_RS > 0).any():
        reason = "No garbage collection was recorded: its pauses would show as host time only."
        return Verdict(NAME, not_enough=(NotEnoughData(NAME, reason),))
    pause_S = gc_RS.max(axis=0) / times.window_S
    findings = tuple(
        _finding(times, gc_RS, episode, attempt) for episode in episodes(pause_S, MIN_EXCESS)
    )
    checked = (
        f"No {'other ' if findings else ''}garbage collection paused a rank for 6 % of a step."
    )
    return Verdict(NAME, findings, checked)


def _finding(times: PhaseTimes, gc_RS: Floats, episode: Episode, attempt: int) -> Finding:
    in_RS = gc_RS[:, episode.first : episode.last + 1]
    longest_S = in_RS.argmax(axis=0)[in_RS.max(axis=0) > 0]
    row, count = _most_frequent(longest_S)
    is_one_rank = bool(times.ranks.rank_R.size > 1 and count >= STEADY_SHARE * longest_S.size)
    shown = int(in_RS[:, 0].argmax())
    lost = Lost(
        (row,) if is_one_rank else (), episode, episode.excess, row if is_one_rank else shown
    )
    who = f"rank {times.ranks.rank_R[row]}" if is_one_rank else "one rank after the other"
    return finding_of(times, lost, attempt, _words(who))


def _most_frequent(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[int, int]:
    values, counts = np.unique(rows, return_counts=True)
    best = int(counts.argmax())
    return int(values[best]), int(counts[best])


def _words(who: str) -> Words:
    return Words(
        "gc_pauses",
        f"Garbage collections stop {who}",
        "to the longest garbage collection",
        f"Python's garbage collector stops {who} in the middle of a step, and the others wait.",
        ("Collections on purpose: a job that calls gc.collect() in each step pays the same.",),
        "Freeze long-lived objects (gc.freeze after setup), turn automatic collection off, and "
        "collect on all ranks in the same step every few hundred steps.",
    )
