"""What the drain thread does before it asks a device, with a fake of the driver's library."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trace_hooks.recording.cuda.drain_device import THREAD_LOCAL, DrainDevice
from trace_hooks.recording.rank_state import RankState


class Driver:
    """The one function that is called, and what it was called with."""

    def __init__(self, code: int = 0) -> None:
        self.modes: list[int] = []
        self._code = code

    def load(self, name: str) -> Any:
        if name != "libcuda.so.1":
            raise OSError(f"{name}: cannot open shared object file")
        return SimpleNamespace(cuThreadExchangeStreamCaptureMode=self._exchange)

    def _exchange(self, mode: Any) -> int:
        self.modes.append(ctypes.cast(mode, ctypes.POINTER(ctypes.c_int)).contents.value)
        return self._code


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Devices that were made current."""
    devices: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    return devices


def test_the_thread_is_prepared_once_there_is_a_device(chosen: list[int]) -> None:
    driver = Driver()
    state = RankState()
    device = DrainDevice(state, driver.load)
    device.prepare()
    assert (driver.modes, device.is_ready) == ([], False)
    state.cuda_device = 3
    device.prepare()
    device.prepare()
    assert (driver.modes, device.is_ready, chosen) == ([THREAD_LOCAL], True, [3])


def no_driver(name: str) -> Any:
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("load", "why"), [(Driver(code=1).load, "answers 1"), (no_driver, "libcuda.so.1: cannot open")]
)
def test_where_it_cannot_no_device_is_used(load: Any, why: str) -> None:
    state = RankState()
    state.cuda_device = 0
    device = DrainDevice(state, load)
    with pytest.raises(RuntimeError, match=f"no device times are taken: .*{why}"):
        device.prepare()
    assert not device.is_ready
