"""Memory counters of a step; CUDA's are those of a fake allocator, no GPU is at work here."""

import os
from typing import Any

import pytest
import torch

from tests.trace_hooks.tiny_models import tracing
from trace_hooks.recording.recorder import Recorder
from trace_hooks.recording.step_counter import StepCounter
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.training import memory
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


def test_memory_counters_at_the_end_of_a_step():
    with tracing("memory") as traced:
        traced.rank_state.step = 4
        traced.source("memory").step_end()
        (row,) = traced.rows("memory")
        assert row["step"] == 4
        assert row["rss"] == pytest.approx(memory.resident_bytes(), rel=0.2)
        if not torch.cuda.is_initialized():
            assert [row[c] for c in ("allocated", "reserved", "peak", "retries")] == [-1] * 4


def test_short_steps_have_a_row_now_and_then(monkeypatch):
    times_ns = iter(range(0, 10**9, 40_000_000))
    monkeypatch.setattr(memory, "now", lambda: next(times_ns))
    with tracing("memory") as traced:
        for step in range(10):
            traced.rank_state.step = step
            traced.source("memory").step_end()
        assert [row["step"] for row in traced.rows("memory")] == [0, 3, 6, 9]


def test_resident_bytes_without_proc(monkeypatch, tmp_path):
    here = memory.resident_bytes()
    monkeypatch.setattr(memory, "_STATM", tmp_path / "nothing")
    assert memory.resident_bytes() >= here * 0.5 > os.sysconf("SC_PAGE_SIZE")
