"""A hub over an empty folder, in which tests make their runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runs.hub import Hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """The hub; once it is closed, none of its threads is left."""
    opened = Hub(tmp_path)
    yield opened
    opened.close()
    assert [t.name for t in threading.enumerate() if t.name.startswith(("follow", "look"))] == []
