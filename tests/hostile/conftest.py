"""Hostile files meet the readers in the process of the test, whose limits tests set."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.imports.worker_command import HERE_VARIABLE


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HERE_VARIABLE, "1")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Where imports write; modules with runs of their own hide it."""
    return tmp_path / "runs"
