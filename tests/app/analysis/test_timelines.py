"""A request for a tile goes through the modules in one direction."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import app
from app.runs.hub import Hub
from app.server import make_app
from sample_traces import RECORDED
from tests.app.in_process import Client

APP = Path(app.__file__).parent
PATH = (
    "routes/timeline.py",
    "analysis/timelines.py",
    "views/timeline/tile.py",
    "views/timeline/query.py",
    "views/timeline/step_overview.py",
    "views/timeline/collective_lines.py",
    "views/timeline/waits.py",
    "views/timeline/lod.py",
    "views/timeline/tile_arrays.py",
    "views/timeline/span_table.py",
    "views/timeline/window.py",
    "views/timeline/lanes.py",
)
"""In the order in which they call each other: none calls one above it."""
SUMS, COLLECTIVES = PATH[4], PATH[5]
"""Only of many spans, and of ranks without spans."""


def module_of(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    name = path.relative_to(APP).as_posix() if path.is_relative_to(APP) else ""
    return name if name in PATH else None


def caller_of(frame: FrameType) -> str | None:
    """The nearest module of the path that called, through the cache and libraries."""
    above = frame.f_back
    while above is not None:
        if (module := module_of(above)) is not None:
            return module
        above = above.f_back
    return None


@contextmanager
def calls() -> Iterator[set[tuple[str, str]]]:
    """Which module of the path calls which one, in threads that begin while the block runs."""
    seen: set[tuple[str, str]] = set()

    def profile(frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and (module := module_of(frame)) is not None:
            caller = caller_of(frame)
            if caller is not None and caller != module:
                seen.add((caller, module))

    threading.setprofile(profile)
    try:
        yield seen
    finally:
        threading.setprofile(None)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    shutil.copytree(RECORDED / "slow_rank", tmp_path / "slow_rank")
    hub = Hub(tmp_path)
    hub.run("slow_rank", wait_s=60.0)
    opened = Client(make_app(hub))
    yield opened
    opened.close()
    hub.close()


def test_a_tile_is_made_in_one_direction(client: Client) -> None:
    with calls() as seen:
        answer = client.get("/api/run/slow_rank/timeline", params={"steps": "8..9"})
    assert answer.status_code == 200, answer.text
    backwards = {(a, b) for a, b in seen if PATH.index(a) > PATH.index(b)}
    assert backwards == set()
    used = {module for pair in seen for module in pair}
    assert used == set(PATH) - {SUMS, COLLECTIVES}, "ten files make a usual tile"
