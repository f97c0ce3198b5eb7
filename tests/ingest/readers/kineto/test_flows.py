"""Flows of torch.profiler: when a collective was enqueued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.ingest.readers.kineto.profiler_files import GPU, collective, event, flow, write
from tests.reader_results import Imported


def test_a_flow_dates_the_enqueue_of_a_collective(tmp_path: Path, runs: Path) -> None:
    """The call itself is not in the file; a flow of autograd is not about launches."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    events = [event(name, at, 5, "kernel", args=collective("allreduce")) for at in (50, 60, 70)]
    events += [flow("s", 3, 41), flow("f", 3, 50, **GPU)]
    events += [flow("s", 4, 42, "fwdbwd"), flow("f", 4, 60, "fwdbwd", **GPU)]
    events += [flow("s", 5, 99), flow("f", 5, 70, **GPU)]  # later than what it began
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    waited = [s - e for e, s in run.rows("collectives", "enqueue_ns", "start_ns")]
    assert waited == [9_000, 0, 0]


def test_damaged_flows_cost_only_themselves(tmp_path: Path, runs: Path) -> None:
    events = [event("ncclKernel_AllReduce", 50, 5, "kernel")]
    numbers: list[Any] = ["x", None, -1, 2**80, 1.5, [3], float("inf")]
    events += [flow(phase, n, 40, **GPU) for n in numbers for phase in "sf"]
    events += [{**flow("s", 1, 0), "ts": "x"}]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert run.rows("collectives", "op") == [("all_reduce",)]
