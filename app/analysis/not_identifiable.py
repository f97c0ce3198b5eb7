"""What the data of a run cannot decide: kinds that show only against a good run, and,
where clocks are not aligned, who came late.
"""

from __future__ import annotations

from typing import Any

from app.analysis.finding_metric import metrics_of
from diagnosis.detectors import against_baseline
from diagnosis.findings import Diagnosis
from ingest.run import Run

REMEDY = "Compare with a good run of the same job: rankscope diagnose RUN --baseline GOOD_RUN."

_UNSEEN = {
    "step_regression": "A job that is equally slow everywhere looks healthy within one run.",
    "comm_regression": "Communication that is equally slow everywhere looks normal within one run.",
    "slow_op": "An operation that was slow on all ranks from the first step on looks normal within "
    "one run; compared with a good run, it shows as longer steps.",
}
"""Kinds that show only against a good run, and why."""


def not_identifiable(diagnosis: Diagnosis) -> list[dict[str, str]]:
    """Kinds that these data cannot show: {"kind", "why", "remedy"}."""
    if any(
        verdict.detector == against_baseline.NAME and verdict.checked
        for verdict in diagnosis.verdicts
    ):
        return []
    return [{"kind": kind, "why": why, "remedy": REMEDY} for kind, why in _UNSEEN.items()]


def clock_of(run: Run, attempt: int | None = None) -> dict[str, Any]:
    """How the clocks of the ranks compare: {"aligned", "kind", "num_ranks", "num_aligned",
    "err_us", "methods"}.
    """
    rows = run.ask("clock_error", attempt=attempt).to_pylist()
    known = [row for row in rows if row["method"] not in (None, "none")]
    errors = [row["err_us"] for row in known if row["err_us"] is not None]
    return {
        "aligned": bool(rows) and len(known) == len(rows),
        "kind": run.info["clock"],
        "num_ranks": len(rows),
        "num_aligned": len(known),
        "err_us": max(errors, default=None),
        "methods": sorted({row["method"] for row in known}),
    }


def whole_answer(diagnosis: Diagnosis, run: Run, attempt: int | None = None) -> dict[str, Any]:
    """Diagnosis.to_json() with `metrics`, `not_identifiable` and `clock`."""
    return {
        **diagnosis.to_json(),
        "metrics": metrics_of(diagnosis),
        "not_identifiable": not_identifiable(diagnosis),
        "clock": clock_of(run, attempt),
    }
