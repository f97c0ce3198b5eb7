"""What the hooks do in a job that uses CUDA, on a torch.cuda and a driver that are pretended.

No GPU runs here: these tests show which calls the hooks make, on which thread, and what they make
of the answers. What a GPU does with them is shown by `make gpu`.
"""

from __future__ import annotations

import ctypes
import json
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import trace_hooks as th
from tests.waiting import wait_until
from trace_hooks import cuda_clock, guard
from trace_hooks.logged import OnDevice, logged_value
from trace_hooks.recorder import Recorder
from trace_hooks.sources import flight_dump
from trace_hooks.sources.kernel_capture import KernelCapture
from trace_hooks.sources.tensor_samples import is_captured
from trace_hooks.sources.token_captures import TokenCaptures


class PretendedEvents:
    """Events that are reached at once."""

    def __init__(self, device: int) -> None:
        self.device = device

    def record(self, event: Any | None) -> Any:
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


def rank_file(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*/ranks/0000-00000.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_the_drain_thread_may_ask_events_while_a_graph_is_captured(
    cuda: PretendedCuda, tmp_path: Path
) -> None:
    cuda.set_device(3)
    tracer = th.start(tmp_path, sources=["gc"])
    with tracer.step():
        wait_until(lambda: cuda.modes == {"trace_hooks drain": 1})
    tracer.stop()
    assert cuda.devices == {"MainThread": 3, "trace_hooks drain": 3}
    assert not guard.account.errors


def test_a_rank_names_the_device_of_its_training_thread(
    cuda: PretendedCuda, tmp_path: Path
) -> None:
    cuda.set_device(2)
    tracer = th.start(tmp_path, sources=["gc"])
    with tracer.step():
        pass
    tracer.stop()
    rank = rank_file(tmp_path)
    assert (rank["device"], rank["device_uuid"]) == ("Pretended", "uuid-of-2")


def test_cuda_is_not_touched_before_the_job_uses_it(cuda: PretendedCuda, tmp_path: Path) -> None:
    cuda.is_in_use = False
    tracer = th.start(tmp_path, sources=["gc"])
    with tracer.step():
        wait_until(lambda: len(list(tmp_path.glob("*/ranks/*.json"))) == 1)
    assert rank_file(tmp_path)["device_uuid"] == ""
    assert not cuda.modes
    cuda.is_in_use = True  # within a step: known when it ends
    with tracer.step():
        pass
    tracer.stop()
    assert rank_file(tmp_path)["device_uuid"] == "uuid-of-0"


def test_the_end_of_a_run_whose_device_has_failed_is_told(
    cuda: PretendedCuda, tmp_path: Path
) -> None:
    def fails() -> bool:
        raise RuntimeError("CUDA error: device-side assert triggered")

    tracer = th.start(tmp_path, sources=["gc"])
    with tracer.step():
        wait_until(lambda: cuda.modes == {"trace_hooks drain": 1})
        wait_until(lambda: len(list(tmp_path.glob("*/ranks/*.json"))) == 1)
        wait_until(lambda: rank_file(tmp_path)["device_uuid"] == "uuid-of-0")
    cuda.is_broken = True
    lost = OnDevice.__new__(OnDevice)
    lost._done, lost._copy = SimpleNamespace(query=fails), torch.ones(1)
    lost._is_lost = False
    copy = weakref.ref(lost._copy)
    tracer.steps._finished[-1].values["loss"] = lost
    del lost
    tracer.stop("failed", "RuntimeError: CUDA error")
    assert copy() is not None  # to free pinned memory of a failed device ends the process
    rank = rank_file(tmp_path)
    assert rank["end"]["status"] == "failed"
    assert rank["device_uuid"] == "uuid-of-0"


def test_a_number_of_a_graph_that_is_captured_is_not_logged(cuda: PretendedCuda) -> None:
    on_device = SimpleNamespace(is_cuda=True, numel=lambda: 1)
    on_device.detach = lambda: on_device
    cuda.is_capturing = True
    with pytest.raises(ValueError, match="while a CUDA graph is captured"):
        logged_value(on_device)


def test_ids_and_losses_are_not_taken_while_a_graph_is_captured(cuda: PretendedCuda) -> None:
    cuda.is_capturing = True
    on_device: Any = SimpleNamespace(is_cuda=True)  # anything else asked of it raises
    assert is_captured(on_device)
    assert not is_captured(torch.ones(1))
    tokens = TokenCaptures(Recorder(), None)  # type: ignore[arg-type]
    tokens._keep_ids([], on_device, None, None)
    assert tokens._ids_BR is None
    assert not tokens._is_about(None, (on_device, on_device), {})  # type: ignore[arg-type]


def test_kernels_are_not_captured_while_a_graph_is(cuda: PretendedCuda) -> None:
    recorder = Recorder()
    capture = KernelCapture(recorder, None)  # type: ignore[arg-type]
    capture.ask({"steps": 1})
    recorder.step = 0
    cuda.is_capturing = True
    capture.step_begin()
    assert capture._running is None
    assert "CUDA graph" in recorder.rows[-1][1]["text"]


def test_the_recorder_of_nccl_is_read_for_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._C import _distributed_c10d as c10d

    monkeypatch.setattr(c10d, "_dump_nccl_trace_json", lambda: b"of nccl", raising=False)
    assert flight_dump.dump(flight_dump.recorder_of("nccl")) == b"of nccl"
    assert flight_dump.dump(flight_dump.recorder_of("gloo")) != b"of nccl"
    monkeypatch.delattr(c10d, "_dump_nccl_trace_json")
    assert flight_dump.dump(flight_dump.recorder_of("nccl")) == b""
