"""Whether a job may have a pipeline, whose schedule makes ranks wait: where it has none, no text
says so."""

from __future__ import annotations

from ingest.run import Run

NO_LATE_RANK = "waiting, no late rank"
"""What a schedule bubble is called where there is no schedule."""


def may_have_pipeline(run: Run, attempt: int | None) -> bool:
    """Of an attempt, None the newest; also where its layout is unknown."""
    layout = run.layout(attempt)
    return layout is None or layout.size("pp") > 1
