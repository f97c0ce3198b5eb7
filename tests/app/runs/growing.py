"""A run that grows while a hub follows it."""

from __future__ import annotations

from app.analysis.live_status import live_status
from app.runs.hub import Hub
from tests.runs_builder import RunBuilder

WAIT_S = 60.0


def more(run: RunBuilder, step: int) -> None:
    """Write one step more of rank 0."""
    run.step(0, step, step * 100, step * 100 + 100)
    run.publish()


def last_step(hub: Hub, name: str) -> int | None:
    """The newest finished step that the hub knows of."""
    hub.run(name)
    return live_status(hub, name).last_step
