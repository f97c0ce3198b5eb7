"""Memory of torch.profiler files: what devices hold at the end of each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.kineto.profiler_files import BASE_NS, Json, event, step, write
from tests.reader_results import Imported

T0_NS = BASE_NS + 4212936054935310


def memory(ts: float, allocated: Any, reserved: Any = 0, device: int = 0, kind: int = 1) -> Json:
    args = {
        "Total Allocated": allocated,
        "Total Reserved": reserved,
        "Bytes": 1,
        "Device Id": device,
        "Device Type": kind,
    }
    return event("[memory]", ts, 0, "cpu_instant_event", ph="i", args=args)


MEMORY = ("step", "ts_ns", "allocated", "reserved", "peak", "retries", "rss")


def test_memory_is_what_the_devices_hold_at_the_end_of_each_step(
    tmp_path: Path, runs: Path
) -> None:
    events = [
        step(1, 10, 10),
        step(2, 20, 10),
        memory(5, 100, 1000),
        memory(12, 900, 1000),
        memory(25, 300, 4000),
        memory(15, 200, 1000),
        memory(26, 7, 8, device=1),
        memory(27, 10**6, kind=0),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert run.rows("memory", *MEMORY) == [
        (-1, T0_NS + 5_000, 100, 1000, 100, -1, -1),
        (1, T0_NS + 15_000, 200, 1000, 900, -1, -1),
        (2, T0_NS + 26_000, 307, 4008, 900, -1, -1),
    ]
    assert run.info["problems"] == []


def test_memory_of_a_job_on_the_cpu(tmp_path: Path, runs: Path) -> None:
    events = [memory(5, 100, kind=0, device=-1), memory(6, 70, kind=0, device=-1)]
    run = Imported(write(tmp_path / "a.json", [event("a", 0, 1), *events]), into=runs)
    assert run.rows("memory", "allocated", "reserved", "peak") == [(70, -1, 100)]


def test_memory_that_cannot_be_read_costs_only_itself(tmp_path: Path, runs: Path) -> None:
    broken: list[Any] = [None, "many", -5, 2**70, [1], {}, 1.5, float("nan"), True]
    events = [memory(5, value, value) for value in broken] + [memory(6, 8, "x")]
    events += [{**memory(7, 9), "ts": "soon"}, {**memory(8, 1), "args": [1]}]
    events += [memory(9, 10, device=device) for device in (0, 2**80)]
    events += [event("[OutOfMemory]", 11, 0, "cpu_instant_event", ph="i", args={})]
    run = Imported(write(tmp_path / "a.json", [event("a", 0, 1), *events]), into=runs)
    assert len(run.rows("memory", "allocated")) == 1
    assert any(
        "memory events left out, which say by how much memory changed" in g
        for g in run.info["guesses"]
    )
    assert run.rows("marks", "ts_ns", "kind", "text") == [
        (T0_NS + 11_000, "error", "device memory ran out")
    ]


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
@pytest.mark.parametrize(
    ("name", "steps"), [("h100__qwen1.5-0.5b", {-1, 6}), ("mi300__qwen1.5-0.5b", {6})]
)
def test_real_jobs_with_memory(name: str, steps: set[int], tmp_path: Path) -> None:
    run = Imported(TRACES / f"kineto/tracelens/{name}.json.gz", into=tmp_path / "runs")
    rows = run.rows("memory", "step", "allocated", "reserved", "peak")
    assert {row[0] for row in rows} <= steps
    assert all(0 < allocated <= peak <= reserved for _, allocated, reserved, peak in rows)
