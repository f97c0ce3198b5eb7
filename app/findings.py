"""Diagnosis of a run of the store: asks the questions the detectors read, keeps the answer."""

from __future__ import annotations

import pyarrow as pa

from app.hub import Hub
from diagnosis.detectors import detectors, diagnose
from diagnosis.findings import Diagnosis
from ingest.questions import question
from ingest.sandbox import Stop
from ingest.store import Run

MOST_CELLS = 1_500_000
"""Ranks x steps looked back at: 12,288 ranks 122 steps, 8 ranks 187,500."""
FEWEST_STEPS = 50


def diagnosis_of(
    hub: Hub, name: str, attempt: int | None = None, stop: Stop | None = None
) -> Diagnosis:
    """Diagnosis of an attempt (default: the newest), kept until the run has news."""
    return hub.cached(name, ("diagnosis", attempt), lambda run: diagnose_run(run, attempt, stop))


def diagnose_run(run: Run, attempt: int | None = None, stop: Stop | None = None) -> Diagnosis:
    """Ask and judge; raises UserError."""
    wanted = run.newest_attempt if attempt is None else attempt
    return diagnose(tables_of(run, wanted, stop), wanted)


def tables_of(run: Run, attempt: int, stop: Stop | None = None) -> dict[str, pa.Table]:
    """Answers of the questions of all detectors, over the newest steps that fit MOST_CELLS."""
    first, last = _steps(run, attempt)
    names = sorted({name for detector in detectors() for name in detector.questions})
    tables = {}
    for name in names:
        takes = {parameter.name for parameter in question(name).parameters}
        given = {"step_min": first, "step_max": last, "attempt": attempt}
        chosen = {key: value for key, value in given.items() if key in takes}
        tables[name] = run.ask(name, stop=stop, **chosen)
    return tables


def _steps(run: Run, attempt: int) -> tuple[int, int]:
    rows = run.index_rows(
        "SELECT min(step) AS first, max(step) AS last, count(DISTINCT rank) AS ranks"
        " FROM step_rollup WHERE attempt = $attempt AND finished AND step >= 0",
        attempt=attempt,
    )
    if rows[0]["last"] is None:
        return 0, 0
    looked_at = max(MOST_CELLS // max(rows[0]["ranks"], 1), FEWEST_STEPS)
    return max(rows[0]["first"], rows[0]["last"] - looked_at + 1), rows[0]["last"]
