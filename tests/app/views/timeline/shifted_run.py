"""A run whose ranks have clocks that differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
