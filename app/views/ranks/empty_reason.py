"""Why a grid or heat map of ranks shows no value, as a sentence."""

from __future__ import annotations

from app.views.ranks.metric_matrix import last_steps
from app.views.ranks.scales import Metric
from diagnosis.statistics.units import steps_text
from ingest.run import Run

NO_STEP_TIMES = "This run has no step times, so its ranks cannot be compared."


def empty_reason(
    run: Run,
    metric: Metric,
    attempt: int | None,
    steps: tuple[int, int] | None,
    has_values: bool,
) -> str:
    """Why no rank has a colour. `steps`: the chosen ones (None: the run's); `has_values`: the
    metric is known, and ranks lack peers.
    """
    if attempt is not None and attempt not in run.attempts:
        return f"This run has no attempt {attempt}."
    known = last_steps(run, attempt)
    if known is None:
        return NO_STEP_TIMES if run.state == "finished" else "No finished step yet."
    if has_values:
        return f"No rank has peers, so “{metric.title}” cannot be compared."
    if steps is not None and not _has_steps(run, attempt, steps):
        return f"No data for {steps_text(*steps)}."
    where = "this run" if steps is None else steps_text(*steps)
    if metric.is_ratio:
        return (
            f"“{metric.title}” is unknown: it compares the compute of a rank with that of its "
            f"peers, and in {where} no rank has both."
        )
    return f"No values of “{metric.title}” are recorded in {where}."


def _has_steps(run: Run, attempt: int | None, steps: tuple[int, int]) -> bool:
    rows = run.index_rows(
        "SELECT 1 FROM step_rollup WHERE finished AND step BETWEEN $low AND $high"
        " AND ($attempt IS NULL OR attempt = $attempt) LIMIT 1",
        attempt=attempt,
        low=steps[0],
        high=steps[1],
    )
    return bool(rows)
