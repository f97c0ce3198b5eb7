"""The step-time strip: how long the job's steps took over the whole run, with its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diagnosis.findings import Diagnosis, Finding
from ingest.run import Run
from ingest.stopping import Stop

MOST_POINTS = 4096
"""At most this many points are sent; more steps are pooled to the greatest of each stretch."""
MOST_MARKS = 500

Steps = npt.NDArray[np.float64]
"""whole numbers; the browser has no larger integers"""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Mark:
    """An event in a step. `kind`: restart, checkpoint, fault, error, note, ..."""

    step: int
    kind: str
    text: str
    rank: int | None = None


@dataclass(frozen=True)
class Stretch:
    """Steps of a finding."""

    first: int
    last: int
    severity: str
    finding: str
    text: str


@dataclass(frozen=True)
class Strip:
    """Points in order of steps. `step_P`: the step with the greatest time in the stretch from
    first_P to last_P; `ms_P`: that time, NaN while no rank has finished it.
    """

    first_P: Steps
    last_P: Steps
    step_P: Steps
    ms_P: Floats
    median_ms: float | None
    marks: tuple[Mark, ...]
    stretches: tuple[Stretch, ...]


def strip_of(
    run: Run, diagnosis: Diagnosis | None, attempt: int | None = None, stop: Stop | None = None
) -> Strip:
    """The strip of a run, without stretches where there is no diagnosis; raises UserError."""
    steps = run.ask("steps", step_min=0, attempt=attempt, stop=stop)
    step_S = np.asarray(steps.column("step").to_numpy(), np.int64)
    ms_S = np.asarray(steps.column("step_ms").to_numpy(zero_copy_only=False), np.float64)
    attempt_S = np.asarray(steps.column("attempt").to_numpy(), np.int64)
    known = ms_S[np.isfinite(ms_S)]
    finished_S = step_S[np.isfinite(ms_S)]
    marks = [*_restarts(step_S, attempt_S), *_checkpoints(run, attempt, stop)]
    marks += _job_marks(run, int(step_S[0]) if step_S.size else 0, attempt, stop)
    return Strip(
        *pooled(step_S, ms_S, MOST_POINTS),
        float(np.median(known)) if known.size else None,
        tuple(rarest_first(marks)),
        tuple(
            Stretch(
                f.first_step, _lasts_to(f, finished_S), f.severity, f.id, f"{f.title}. {f.text}"
            )
            for f in (diagnosis.findings if diagnosis else ())
        ),
    )


def _lasts_to(finding: Finding, finished_S: npt.NDArray[np.int64]) -> int:
    """Last step of its stretch; an ongoing finding lasts to the newest finished step."""
    if not finding.ongoing or not finished_S.size:
        return finding.last_step
    return max(finding.last_step, int(finished_S[-1]))


def pooled(
    step_S: npt.NDArray[np.int64], ms_S: npt.NDArray[np.float64], most: int
) -> tuple[Steps, Steps, Steps, Floats]:
    """At most `most` points: first, last and slowest step of each stretch, and its time."""
    size = max(-(-step_S.size // most), 1)
    starts = np.arange(0, step_S.size, size)
    ends = np.minimum(starts + size, step_S.size)
    filled_S = np.where(np.isfinite(ms_S), ms_S, -np.inf)
    slowest = [
        start + int(np.argmax(filled_S[start:end])) for start, end in zip(starts, ends, strict=True)
    ]
    slowest_P = np.array(slowest, np.int64)
    return (
        step_S[starts].astype(np.float64),
        step_S[ends - 1].astype(np.float64),
        step_S[slowest_P].astype(np.float64),
        ms_S[slowest_P].astype(np.float32),
    )


def _restarts(step_S: npt.NDArray[np.int64], attempt_S: npt.NDArray[np.int64]) -> list[Mark]:
    changed = np.flatnonzero(np.diff(attempt_S) > 0) + 1
    return [
        Mark(
            int(step_S[index]),
            "restart",
            f"Attempt {attempt_S[index]} continues from step {step_S[index]}.",
        )
        for index in changed
    ]


def _checkpoints(run: Run, attempt: int | None, stop: Stop | None) -> list[Mark]:
    rows = run.ask("checkpoint_steps", attempt=attempt, stop=stop).to_pylist()
    return [Mark(row["step"], "checkpoint", _checkpoint_text(row)) for row in rows]


def _checkpoint_text(row: dict[str, Any]) -> str:
    cost = f"{row['checkpoint_ms']:,.0f} ms not hidden"
    step, longer = row["step"], row["longer_step"]
    if longer == step:
        return f"Checkpoint, {cost}."
    part = "" if longer is None else f", part of step {longer}"
    return f"Checkpoint after step {step}, {cost}{part}."


def _job_marks(run: Run, first_step: int, attempt: int | None, stop: Stop | None) -> list[Mark]:
    rows: list[dict[str, Any]] = run.ask("marks", attempt=attempt, stop=stop).to_pylist()
    return [
        Mark(max(row["step"], first_step), row["kind"], _mark_text(row), row["rank"])
        for row in rows
    ]


def _mark_text(row: dict[str, Any]) -> str:
    text: str = row["text"] or row["kind"]
    return f"Injected fault: {text}" if row["kind"] == "fault" else text


def rarest_first(marks: list[Mark]) -> list[Mark]:
    """At most MOST_MARKS marks in order of steps; the rarest kinds take precedence."""
    counts: dict[str, int] = {}
    for mark in marks:
        counts[mark.kind] = counts.get(mark.kind, 0) + 1
    kept = sorted(marks, key=lambda mark: (counts[mark.kind], mark.step))[:MOST_MARKS]
    return sorted(kept, key=lambda mark: (mark.step, mark.kind))
