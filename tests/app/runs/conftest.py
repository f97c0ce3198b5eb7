"""A hub over an empty folder, in which tests make their runs, and that its threads end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runs.hub import Hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    opened = Hub(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Once the hub is closed, which is before this ends."""
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith(("follow", "look"))] == []
