"""What the hooks do in a job that uses CUDA, on a torch.cuda and a driver that are pretended.

No GPU runs here: these tests show which calls the hooks make, on which thread, and what they make
of the answers. What a GPU does with them is shown by `make gpu`.
"""

from __future__ import annotations

import contextlib
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import trace_hooks as th
from tests.trace_hooks.recording.cuda.pretended_cuda import (
    PretendedCuda,
    fails,
    pretended_copy,
)
from tests.waiting import wait_until
from trace_hooks.recording import guard
from trace_hooks.recording.logged_values import OnDevice, logged_value
from trace_hooks.recording.rank_state import RankState
from trace_hooks.recording.recorder import Recorder
from trace_hooks.sources.communication import flight_dump
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.inspection.captures import Capture
from trace_hooks.sources.inspection.frame_queue import FrameQueue
from trace_hooks.sources.inspection.host_buffers import HostBuffers
from trace_hooks.sources.inspection.token_captures import TokenCaptures
from trace_hooks.sources.inspection.token_names import TokenNames
from trace_hooks.sources.profiling.kernel_capture import KernelCapture
from trace_hooks.sources.tensors import tensor_samples
from trace_hooks.sources.tensors.tensor_names import Place
from trace_hooks.sources.tensors.tensor_samples import Copies, DueStep, TensorSample, is_captured


def rank_file(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*/ranks/0000-00000.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


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


def test_the_end_of_a_run_whose_device_has_failed_is_recorded(
    cuda: PretendedCuda, tmp_path: Path
) -> None:
    tracer = th.start(tmp_path, sources=["gc"])
    with tracer.step():
        wait_until(lambda: cuda.modes == {"trace_hooks drain": 1})
        wait_until(lambda: len(list(tmp_path.glob("*/ranks/*.json"))) == 1)
        wait_until(lambda: rank_file(tmp_path)["device_uuid"] == "uuid-of-0")
    cuda.is_broken = True
    lost = pretended_copy(torch.ones(1), fails)
    copy = weakref.ref(lost.values)
    tracer.steps._finished[-1].values["loss"] = OnDevice(lost)
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


def sample(stream: Any = None) -> TensorSample:
    where = Place(0, "block", "output")
    return TensorSample("output", where, "", 0, 0, 2, torch.ones(2), None, stream=stream)


def test_what_a_failed_device_was_to_send_is_dropped_and_never_freed(cuda: PretendedCuda) -> None:
    recorder = Recorder()
    copies, frames = Copies(recorder), FrameQueue(SourceContext(recorder, None), TokenNames())  # type: ignore[arg-type]
    copies.send(DueStep(0, [sample(), sample()]))
    copies._waiting[0]._pinned = pretended_copy(torch.ones(4), fails)
    capture = Capture({}, [{}], torch.ones(1, 2, 2))
    capture._pinned = pretended_copy(torch.ones(1, 2, 2), fails)
    frames._captures.append(capture)
    memory = [weakref.ref(copies._waiting[0]._pinned.values), weakref.ref(capture._pinned.values)]
    del capture
    assert list(copies.arrived()) == []
    frames.deliver()
    assert recorder.dropped == 3
    assert not recorder.rows
    assert all(one() is not None for one in memory)


def test_nothing_is_copied_into_a_graph_that_is_captured(
    cuda: PretendedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimizer reports its changes after its step has ended; the next one may be captured."""
    recorder = Recorder()
    copies = Copies(recorder)
    monkeypatch.setattr(tensor_samples, "is_captured", lambda tensor: cuda.is_capturing)
    cuda.is_capturing = True
    copies.send(DueStep(0, [sample(), sample()]))
    assert (len(copies), recorder.dropped) == (0, 2)


def test_samples_are_copied_on_the_stream_that_made_them(
    cuda: PretendedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[str] = []
    made: list[tuple[str, int]] = []

    @contextlib.contextmanager
    def on(stream: str) -> Iterator[None]:
        streams.append(stream)
        yield
        streams.pop()

    class NotedCopy(tensor_samples.Copy):
        def __init__(self, step: int, tensors: list[TensorSample]) -> None:
            made.append((streams[-1], len(tensors)))
            super().__init__(step, tensors)

    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(tensor_samples, "Copy", NotedCopy)
    Copies(Recorder()).send(DueStep(0, [sample("a"), sample("b"), sample("a")]))
    assert made == [("a", 2), ("b", 1)]


def test_memory_of_the_host_is_the_hosts_whatever_device_is_the_default() -> None:
    """As after torch.set_default_device("cuda")."""
    with torch.device("meta"):
        assert torch.empty(1).device.type == "meta"
        assert HostBuffers().take(torch.Size([2])).device.type == "cpu"


def test_ids_and_losses_are_not_taken_while_a_graph_is_captured(cuda: PretendedCuda) -> None:
    cuda.is_capturing = True
    on_device: Any = SimpleNamespace(is_cuda=True)  # any other attribute raises
    assert is_captured(on_device)
    assert not is_captured(torch.ones(1))
    tokens = TokenCaptures(RankState(), None)  # type: ignore[arg-type]
    tokens._keep_ids([], on_device, None, None)
    assert tokens._ids_BR is None
    assert not tokens._is_about(None, (on_device, on_device), {})  # type: ignore[arg-type]


def test_kernels_are_not_captured_while_a_graph_is(cuda: PretendedCuda) -> None:
    recorder = Recorder()
    capture = KernelCapture(SourceContext(recorder, None))  # type: ignore[arg-type]
    capture.ask({"steps": 1})
    recorder.rank_state.step = 0
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
