"""Memory counters of a step; CUDA's are those of a fake allocator, no GPU is at work here."""

from typing import Any

import pytest
import torch

from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.training.memory import Memory


def row_of_a_step() -> dict[str, Any]:
    recorder = Recorder()
    Memory(SourceContext(recorder, StepCounter(recorder, int, int))).step_end()
    ((table, values),) = recorder.rows
    assert table == "memory"
    return values


def test_a_job_without_cuda_has_resident_memory_only() -> None:
    row = row_of_a_step()
    assert row["rss"] > 1 << 20
    assert [row[name] for name in ("allocated", "reserved", "peak", "retries")] == [-1] * 4


def test_cuda_counters_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.cuda.memory_stats flattens and sorts a hundred of them for the four that are wanted,
    which takes the training thread 44 us a step.
    """

    def flattened(device: Any = None) -> Any:
        raise AssertionError("all counters were flattened")

    nested = {
        "allocated_bytes": {"all": {"current": 5, "peak": 9}, "small_pool": {"current": 1}},
        "reserved_bytes": {"all": {"current": 20, "peak": 20}},
        "num_alloc_retries": 3,
    }
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_stats", flattened)
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device=None: nested)
    row = row_of_a_step()
    assert (row["allocated"], row["reserved"], row["peak"], row["retries"]) == (5, 20, 9, 3)


def test_a_counter_that_an_allocator_does_not_have_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device=None: {})
    assert row_of_a_step()["peak"] == -1
