"""A torch.cuda that is pretended: no GPU runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from trace_hooks.recording.cuda.pinned_memory import PinnedCopy


class PretendedEvents:
    """Events that are reached at once."""

    def __init__(self, device: int) -> None:
        self.device = device

    def record(self, event: Any | None, stream: int) -> Any:
        return object()

    def reached(self, event: Any) -> bool:
        return True

    def elapsed_ms(self, first: Any, second: Any) -> float:
        return 0.0

    def stream(self) -> int | None:
        return 1


class PretendedCuda:
    """Four devices; as in CUDA, each thread has a device of its own, at first number 0."""

    def __init__(self) -> None:
        self.is_in_use = True
        self.is_broken = False
        self.is_capturing = False
        self.modes: dict[str, int] = {}  # capture mode by thread
        self.devices: dict[str, int] = {}  # chosen by each thread

    def current_device(self) -> int:
        return self.devices.get(threading.current_thread().name, 0)

    def set_device(self, device: int) -> None:
        self.devices[threading.current_thread().name] = device

    def get_device_properties(self, device: int) -> Any:
        if self.is_broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return SimpleNamespace(name="Pretended", uuid=f"uuid-of-{device}")

    def library(self, name: str) -> Any:
        assert name == "libcuda.so.1"

        def exchange(mode: Any) -> int:
            self.modes[threading.current_thread().name] = mode._obj.value
            return 0

        return SimpleNamespace(cuThreadExchangeStreamCaptureMode=exchange)


def pretended_copy(values: torch.Tensor, query: Callable[[], bool]) -> PinnedCopy:
    """A copy in progress, whose event answers by `query`."""
    copy = PinnedCopy.__new__(PinnedCopy)
    copy.values, copy.is_lost, copy._done = values, False, SimpleNamespace(query=query)
    return copy


def fails() -> bool:
    raise RuntimeError("CUDA error: device-side assert triggered")
