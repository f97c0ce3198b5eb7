"""Whether a run has samples of its machines, and which changes of them the overview states."""

from __future__ import annotations

from typing import Any

from app.runs.hub import Hub
from app.runs.policies import min_age
from app.views.machines.telling_changes import telling_changes
from ingest.run import Run
from ingest.stopping import Stop

NEW_EVERY_S = 5.0


def has_samples(hub: Hub, run: str) -> bool:
    """Whether any was recorded or imported."""
    return hub.cache.get(run, "has machines", lambda run, _: _has_files(run))


def may_have_samples(hub: Hub, run: str) -> bool:
    """The same, or a job with hooks, which may record some yet."""
    return hub.run(run).info["source"] == "hooks" or has_samples(hub, run)


def telling_of(hub: Hub, name: str, attempt: int | None, stop: Stop | None) -> dict[str, Any]:
    """The same for pages and shared files; None: of the newest attempt."""

    def make(run: Run, stop: Stop | None) -> dict[str, Any]:
        return telling_changes(run, run.newest_attempt if attempt is None else attempt, stop)

    key = ("machines", "telling", attempt)
    return hub.cache.get(name, key, make, min_age(NEW_EVERY_S), stop)


def _has_files(run: Run) -> bool:
    asked = "SELECT count(*) AS n FROM files WHERE table_name = 'host_metrics'"
    return bool(run.index_rows(asked)[0]["n"])
