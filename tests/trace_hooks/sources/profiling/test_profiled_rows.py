"""Events of the profiler: the step of a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.autograd.profiler import profile, record_function

from trace_hooks.sources.profiling.profiled_rows import StepWindows, activity, spans_of


class EventOfOlderTorch:
    """An event without what torch before 2.12 does not say."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def __getattr__(self, name: str) -> Any:
        if name == "activity_type":
            raise AttributeError(name)
        return getattr(self._event, name)


def device_event(name: str, device: str, is_user_annotation: bool = False) -> Any:
    return SimpleNamespace(
        name=lambda: name,
        device_type=lambda: SimpleNamespace(name=device),
        is_user_annotation=lambda: is_user_annotation,
    )


def test_events_of_older_torch_have_the_same_kinds_and_spans() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    with profile(use_kineto=True) as profiler, record_function("mine"):
        model(torch.ones(4, 8)).sum().backward()
    events = profiler.kineto_results.events()
    older = [EventOfOlderTorch(event) for event in events]
    assert {activity(event) for event in events} == {"cpu_op", "user_annotation"}
    assert [activity(event) for event in older] == [activity(event) for event in events]
    assert list(spans_of(older, 1_000, str)) == list(spans_of(events, 1_000, str))


@pytest.mark.parametrize(
    ("name", "device", "is_annotation", "kind"),
    [
        ("cudaLaunchKernel", "CPU", False, "cuda_runtime"),
        ("cuLaunchKernelEx", "CPU", False, "cuda_runtime"),
        ("cudnn_attention", "CPU", False, "cpu_op"),
        ("Lazy Function Loading", "CPU", False, ""),
        ("Memcpy DtoH (Device -> Pinned)", "CUDA", False, "gpu_memcpy"),
        ("Memset (Device)", "CUDA", False, "gpu_memset"),
        ("mine", "CUDA", True, ""),
        ("ampere_sgemm_128x64_nn", "CUDA", False, "kernel"),
    ],
)
def test_kinds_of_a_device_follow_from_names(
    name: str, device: str, is_annotation: bool, kind: str
) -> None:
    assert activity(device_event(name, device, is_annotation)) == kind


def test_the_step_of_a_time_is_the_one_that_began_last() -> None:
    windows = StepWindows()
    windows.add(4, 100)
    windows.add(5, 200)
    assert [windows.at(time) for time in (90, 100, 199, 200, 900)] == [4, 4, 4, 5, 5]
