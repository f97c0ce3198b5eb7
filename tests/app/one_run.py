"""A hub over a folder with one small run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.runs.hub import Hub
from tests.runs_builder import two_rank_run


@contextmanager
def hub_of_one_run(runs: Path) -> Iterator[Hub]:
    """A hub over `runs`, in which it makes the run `job` and opens it."""
    two_rank_run(runs / "job")
    with closing(Hub(runs)) as hub:
        hub.run("job")
        yield hub
