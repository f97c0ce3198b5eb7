"""Reading torch.profiler's trace and comparing spans with kernels, on traces made by hand: the
arithmetic of the kit, no result of a GPU. The last test reads a real trace of the CPU.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

import trace_hooks as th
from benchmarks.gpu.figures import Place
from benchmarks.gpu.parts import capture
from benchmarks.gpu.profiled import STEP, counts, profiled, read_file, read_trace
from benchmarks.gpu.span_times import busy_us, compared, numbered
from benchmarks.gpu.training import rows_of

BASE_NS = 1_790_000_000_000_000_000


def event(cat: str, name: str, ts: float, dur: float = 1.0, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args}


def launched(number: int, at: float, begin: float, dur: float) -> list[dict[str, Any]]:
    return [
        event("cuda_runtime", "cudaLaunchKernel", at, correlation=number),
        event("kernel", "gemm", begin, dur, correlation=number, stream=7),
    ]


def trace(*events: dict[str, Any]) -> dict[str, Any]:
    return {"baseTimeNanoseconds": BASE_NS, "traceEvents": [*events]}


def test_waits_are_calls_that_wait_and_copies_of_memory_that_is_not_pinned() -> None:
    profile = read_trace(
        trace(
            event("user_annotation", STEP, 100, 100),
            *[
                event("cuda_runtime", name, 110 + at)
                for at, name in enumerate(
                    [
                        "cudaStreamSynchronize",
                        "cudaEventSynchronize",
                        "cudaDeviceSynchronize",
                        "cudaMemcpy",
                        "cudaMemcpyAsync",
                        "cudaEventQuery",
                        "cudaEventRecord",
                        "cudaStreamWaitEvent",
                        "cudaStreamIsCapturing",
                        "cudaHostAlloc",
                    ]
                )
            ],
            event("cuda_driver", "cuStreamSynchronize", 130),
            event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 140),
            event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 145),
            *launched(9, 150, 160, 5),
        )
    )
    seen = counts(profile)
    assert (seen.waits, seen.copies, seen.kernels, seen.queries, seen.may_wait) == (
        6,
        2,
        1,
        1,
        1,
    )


def test_only_what_lies_within_the_steps_counts() -> None:
    sync = "cudaDeviceSynchronize"
    profile = read_trace(
        trace(
            event("cuda_runtime", sync, 50),
            event("user_annotation", STEP, 100, 10),
            event("cuda_runtime", sync, 105),
            event("cuda_runtime", sync, 115),
            event("user_annotation", STEP, 120, 10),
            event("cuda_runtime", sync, 125),
            event("cuda_runtime", sync, 140),
            *launched(1, 129, 200, 10),  # launched within, though it runs later
            *launched(2, 131, 140, 10),
        )
    )
    seen = counts(profile)
    assert (seen.waits, seen.kernels) == (3, 1)


def test_a_trace_without_steps_is_an_error() -> None:
    with pytest.raises(ValueError, match="no step"):
        counts(read_trace(trace()))


def test_a_kernel_belongs_to_the_step_that_launched_it(tmp_path: Path) -> None:
    """Read from a file of a capture, whose steps have the profiler's own name."""
    path = tmp_path / "trace.json.gz"
    seen = trace(
        event("user_annotation", "ProfilerStep#8", 20, 10),
        event("user_annotation", "ProfilerStep#7", 0, 10),
        *launched(6, 21, 45, 3),
        *launched(5, 2, 40, 3),  # runs after its step has ended
        *launched(4, 11, 50, 3),  # between steps
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 60, correlation=6),
    )
    path.write_bytes(gzip.compress(json.dumps(seen).encode()))
    profile = read_file(path)
    assert capture.in_steps(profile) == [1, 1]
    assert [kernel.begin_us for kernel in profile.kernels] == [40, 45, 50]
    assert profile.unix_ns(40) == BASE_NS + 40_000


def spans(*rows: dict[str, Any]) -> pa.Table:
    defaults = {"kind": "forward", "name": "blocks.0"}
    return pa.Table.from_pylist([defaults | row for row in rows])


def test_a_span_is_compared_with_what_was_launched_inside_it() -> None:
    profile = read_trace(
        trace(
            *launched(1, 90, 95, 400),  # before it: runs on into it, and is not its own
            event("user_annotation", "rankscope open 3", 100),
            *launched(2, 110, 500, 100),
            *launched(3, 120, 650, 50),  # 50 us of nothing before it
            event("user_annotation", "rankscope close 3", 130),
            *launched(4, 140, 700, 900),
        )
    )
    row = {"ts_ns": BASE_NS + 498_000, "dur_ns": 205_000, "args": "3"}
    (one,) = compared(spans(row), profile)
    assert (one.kind, one.span_us, one.work_us, one.busy_us) == ("forward", 205, 200, 150)
    assert one.error_us == 5
    assert one.late_us == pytest.approx(3)  # ends at 703 by the hooks, at 700 by the profiler


def test_spans_without_a_number_a_mark_or_work_are_left_out() -> None:
    profile = read_trace(
        trace(
            event("user_annotation", "rankscope open 1", 100),
            event("user_annotation", "rankscope close 1", 130),
            *launched(4, 140, 700, 900),
        )
    )
    at = {"ts_ns": BASE_NS, "dur_ns": 1}
    assert (
        compared(spans(at | {"args": "1"}, at | {"args": "2"}, at | {"args": None}), profile) == []
    )


def test_time_in_which_several_kernels_run_counts_once() -> None:
    assert busy_us([(0, 10), (5, 12), (20, 30), (22, 25)]) == 22


def test_spans_of_the_hooks_carry_the_number_that_the_profiler_has(tmp_path: Path) -> None:
    """A real step on the CPU, whose innermost operators stand for kernels: each span is found, and
    has all its operators in it.
    """
    place = Place("cpu", tmp_path / "place", print)
    place.folder.mkdir()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = th.start(tmp_path / "runs", run="gpu", model=model)

    def step() -> None:
        with tracer.step():
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()

    try:
        with numbered(tracer.recorder):
            profile = profiled(place, step, 3)
        step()  # not numbered any more
    finally:
        tracer.stop()
    pairs = compared(rows_of(tmp_path / "runs", "spans"), profile)
    assert len([pair for pair in pairs if pair.kind == "optimizer"]) == 2
    assert {"forward", "backward", "optimizer"} <= {pair.kind for pair in pairs}
    assert all(pair.error_us > 0 for pair in pairs)
    assert all(0 < pair.busy_us <= pair.work_us for pair in pairs)
