"""Hostile files meet the readers in the process of the test, whose limits tests set."""

from __future__ import annotations

import pytest

from ingest.imports.worker_command import HERE_VARIABLE


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HERE_VARIABLE, "1")
