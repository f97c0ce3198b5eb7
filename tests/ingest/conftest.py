"""Readers are tested in the process of the test; those they run in have tests of their own."""

from __future__ import annotations

import pytest

from ingest.imports import HERE_VARIABLE


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HERE_VARIABLE, "1")
