"""A job that uses CUDA, on a torch.cuda that is pretended."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.trace_hooks.recording.cuda.pretended_cuda import PretendedCuda, PretendedEvents
from trace_hooks.recording import guard
from trace_hooks.recording.cuda import cuda_clock


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PretendedCuda]:
    pretended = PretendedCuda()
    monkeypatch.setenv("TRACE_HOOKS_RING_DIR", str(tmp_path / "rings"))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: pretended.is_in_use)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: pretended.is_capturing)
    for name in ("current_device", "set_device", "get_device_properties"):
        monkeypatch.setattr(torch.cuda, name, getattr(pretended, name))
    monkeypatch.setattr(cuda_clock, "CudaEvents", PretendedEvents)
    monkeypatch.setattr(ctypes, "CDLL", pretended.library)
    yield pretended
    guard.disabled.clear()
