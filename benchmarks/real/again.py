"""Kept runs, diagnosed again with the rules of today as if they were live."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.analysis.diagnosis import tables_of
from benchmarks.real.plan import Episode
from benchmarks.real.records import TRUTH, Results, episode_of, read
from benchmarks.real.score import Job, parts_of, score
from benchmarks.real.train import marks, step_ms
from diagnosis.detectors import diagnose
from diagnosis.statistics.episodes import MIN_VOTES
from ingest.run import Run, open_run

FAR_STRIDE, AFTER_STEPS = 5, 30
"""Each step of an episode is a moment to diagnose at, and those soon after; else one in so many."""


def runs_below(folder: Path) -> list[Path]:
    """Kept runs, in the order in which they were recorded."""
    return sorted(path.parent for path in folder.glob(f"*/{TRUTH}"))


def diagnosed_again(folder: Path, every: int = 1) -> tuple[Job, dict[str, Any]]:
    """A kept run with the rules of today: what they say at the end of each step, or of one in
    `every`, about the steps so far. An alert comes at the end of a step; writing, indexing and
    diagnosis take no time."""
    truth = read(folder / TRUTH)
    job = Job([_planted(row) for row in truth.episodes])
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("index", TRUTH))
        with open_run(copy) as run:
            ends_ns = _ends_ns(run)
            begun_s = time.perf_counter()
            for step in moments(sorted(ends_ns), job.episodes, every):
                tables = tables_of(run, run.newest_attempt, (min(ends_ns), step))
                parts = parts_of(diagnose(tables, run.newest_attempt))
                if not job.reported or job.reported[-1][1] != parts:
                    job.reported.append((ends_ns[step], parts))
            score(job, step_ms(run), marks(run))
    return job, {**_of_job(truth), "again_s": round(time.perf_counter() - begun_s, 1)}


def moments(steps: list[int], episodes: list[Episode], every: int = 1) -> Iterator[int]:
    """Steps at whose end a run is diagnosed: all that matter for a delay, or one in `every` of
    them, some others, the last.
    """
    near = {s for e in episodes for s in range(e.first, e.last + AFTER_STEPS)}
    for step in steps[int(MIN_VOTES) - 1 :]:
        is_due = step % (every if step in near else every * FAR_STRIDE) == 0
        if is_due or step == steps[-1]:
            yield step


def _planted(row: dict[str, Any]) -> Episode:
    """The episode with nothing found yet."""
    episode = episode_of(row)
    blank = Episode(episode.fault, episode.dose, episode.ranks, episode.first, episode.last)
    return replace(blank, own=episode.own, texts=episode.texts)


def _of_job(truth: Results) -> dict[str, Any]:
    [job] = truth.jobs
    return job


def _ends_ns(run: Run) -> dict[int, int]:
    rows = run.sql(
        "SELECT step, max(start_ns + dur_ns) AS end_ns FROM steps WHERE dur_ns >= 0 AND step >= 0"
        " GROUP BY step"
    ).to_pylist()
    return {row["step"]: row["end_ns"] for row in rows}
