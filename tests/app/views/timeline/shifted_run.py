"""A run whose ranks have clocks that differ, and the lanes of any run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.views.timeline.lanes import Place
from app.views.timeline.tile import tile
from app.views.timeline.tile_arrays import Tile
from app.views.timeline.window import Window, extent
from ingest.run import Run, open_run
from tests.runs_builder import T0, US, two_rank_run

SHIFT_US = 30


@contextmanager
def shifted_run(folder: Path) -> Iterator[Run]:
    """two_rank_run, 3 steps of 100 us; rank 1 on another host with a clock SHIFT_US behind."""
    builder = two_rank_run(folder)
    builder.hosts = ["h0", "h1"]
    builder.rank_files()
    builder.add("clocks", 1, 0, ts_ns=T0, offset_ns=SHIFT_US * US)
    builder.publish()
    with open_run(folder) as opened:
        yield opened


def places(run: Run) -> list[Place]:
    """All ranks, as lanes in order."""
    return [Place(**row) for row in run.ask("clock_shifts").to_pylist()]


def made(run: Run, window: Window, width_px: int = 1000, lanes: list[Place] | None = None) -> Tile:
    """The tile of a window with these lanes, else all."""
    lanes = places(run) if lanes is None else lanes
    have = extent(run, 0, [place.rank for place in lanes])
    assert have is not None
    return tile(run, 0, lanes, window, width_px, have)
