"""What holds for all tests of the app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ingest.imports import HERE_VARIABLE

WITH_PROCESSES = ("test_uploads",)
"""Tests of what happens around an import: it runs as it does for users."""


@pytest.fixture(autouse=True, scope="module")
def _read_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """Imports start no process: those have tests of their own, and take a second each to start."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__.rpartition(".")[2] not in WITH_PROCESSES:
            patch.setenv(HERE_VARIABLE, "1")
        yield
