"""Fixtures of the tests that trace this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from trace_hooks.recording import guard


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("TRACE_HOOKS") or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRACE_HOOKS_RING_DIR", str(tmp_path / "rings"))
    yield
    guard.disabled.clear()
