"""A hub over an empty folder, in which tests make their runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runs.hub import Hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    opened = Hub(tmp_path)
    yield opened
    opened.close()
