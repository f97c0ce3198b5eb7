"""One capture of kernels: when it is complete, and the cost that it reports."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import profiler
from torch.profiler import ProfilerActivity

from trace_hooks.protocol.capture_request import CaptureRequest
from trace_hooks.sources.profiling import profiled_steps
from trace_hooks.sources.profiling.profiled_steps import Capture, cost, numbers


@pytest.fixture
def capture() -> Capture:
    found = Capture(CaptureRequest(2, 7), before_ns=1_000_000)
    found.windows.add(7, 100)
    found.step_ns.append(3_000_000)
    return found


def test_it_is_complete_with_its_last_step(capture: Capture) -> None:
    assert not capture.is_complete
    capture.windows.add(8, 200)
    assert capture.is_complete


@pytest.mark.parametrize(("name", "value"), [("MAX_S", 0.0), ("MAX_GROWTH", -(1 << 40))])
def test_it_ends_early_beyond_a_bound(
    capture: Capture, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(profiled_steps, name, value)
    assert capture.is_complete


def test_it_states_its_cost(capture: Capture) -> None:
    capture.step_ns.append(5_000_000)
    capture.windows.add(8, 200)
    capture.own_ns = 2_000_000
    assert numbers(capture) == {
        "first_step": 7,
        "steps": 2,
        "start_and_stop_ms": 2.0,
        "step_ms": 4.0,
        "step_before_ms": 1.0,
    }
    assert cost(capture) == (
        "captured 2 steps from step 7; they took 4.0 ms of CPU time of the training thread each "
        "(the step before: 1.0 ms), starting and stopping 2.0 ms"
    )


def test_on_a_device_it_asks_for_the_records_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's profile() falls back to events around operators, without a kernel, unless told."""
    both = {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(profiler, "_supported_activities", lambda: both)
    asked = Capture(CaptureRequest(2, 7), before_ns=0).profiler
    assert asked.kineto_activities == both
    assert asked.profiler_kind == torch.autograd.ProfilerState.KINETO
