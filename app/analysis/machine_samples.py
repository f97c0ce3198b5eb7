"""Whether a run has samples of its machines."""

from __future__ import annotations

from app.runs.hub import Hub
from ingest.run import Run


def has_samples(hub: Hub, run: str) -> bool:
    """Whether any was recorded or imported."""
    return hub.cache.get(run, "has machines", lambda run, _: _has_files(run))


def may_have_samples(hub: Hub, run: str) -> bool:
    """The same, or a job with hooks, which may record some yet."""
    return hub.run(run).info["source"] == "hooks" or has_samples(hub, run)


def _has_files(run: Run) -> bool:
    asked = "SELECT count(*) AS n FROM files WHERE table_name = 'host_metrics'"
    return bool(run.index_rows(asked)[0]["n"])
