"""What holds for all tests of the app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ingest.imports.worker_command import HERE_VARIABLE


@pytest.fixture(autouse=True, scope="module")
def _read_here() -> Iterator[None]:
    """Imports start no process: those have tests of their own, and take a second each to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HERE_VARIABLE, "1")
        yield
