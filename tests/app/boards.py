"""The list of runs of a hub, awaited."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.analysis.run_board import board_of
from app.runs.hub import Hub
from app.views.run.runs import RunRow


@contextmanager
def hub_with_board(runs: Path) -> Iterator[Hub]:
    """A hub over `runs`; its board ends before it does."""
    with closing(Hub(runs)) as hub:
        yield hub
        board_of(hub).close()


def settled(hub: Hub) -> dict[str, RunRow]:
    """The rows once nothing is being indexed."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        rows = board_of(hub).rows()
        if rows and all(row.state != "indexing" for row in rows):
            return {row.name: row for row in rows}
        time.sleep(0.02)
    raise AssertionError("still indexing")
