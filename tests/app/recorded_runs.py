"""A hub over the recorded runs and small ones, and the view of one of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.runs.hub import Hub
from app.view_state import View
from sample_traces import RECORDED
from tests.runs_builder import RunBuilder, two_rank_run

VIEW = View("slow_rank")


@contextmanager
def hub_of_recorded_runs(runs: Path) -> Iterator[Hub]:
    """A hub over `runs` with `slow_rank`, `healthy`, `two` (12 steps), `short` (3) and `begun`."""
    for name in ("slow_rank", "healthy"):
        shutil.copytree(RECORDED / name, runs / name)
    two_rank_run(runs / "two", num_steps=12)
    two_rank_run(runs / "short")
    RunBuilder(runs / "begun").rank_files()
    with closing(Hub(runs)) as hub:
        yield hub
