"""Inputs for other tools from a run: timings per section, and Kineto profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KINETO_STEPS = 8
"""Steps of a profile, the last in which the fault acts; users profile few."""

COMPUTE_STREAM, COMM_STREAM, DEVICE_PID, HOST_PID = 7, 20, 0, 1000

_NCCL = {
    "all_reduce": "ncclKernel_AllReduce_RING_LL_Sum_bfloat16",
    "all_gather": "ncclKernel_AllGather_RING_LL_bfloat16",
    "reduce_scatter": "ncclKernel_ReduceScatter_RING_LL_Sum_bfloat16",
    "send": "ncclKernel_SendRecv",
    "recv": "ncclKernel_SendRecv",
}
"""Names of kernels before NCCL 2.19: HTA 0.5 does not know those of today."""


def spans_of(run: Path) -> pa.Table:
    """All spans of a native run."""
    files = sorted((run / "compacted").glob("spans-*.parquet"))
    return pa.concat_tables(pq.read_table(path) for path in files)


def write_sections(spans: pa.Table, path: Path) -> None:
    """Per rank and step, ms: sections as a user of NVRx wraps them, and compute as its kernels."""
    kind = spans["kind"].cast(pa.string())
    outermost = pc.or_(pc.equal(spans["depth"], 0), pc.equal(kind, "tp_comm"))
    sums = (
        spans.set_column(spans.schema.get_field_index("kind"), "kind", kind)
        .filter(outermost)
        .group_by(["rank", "step", "kind"])
        .aggregate([("dur_ns", "sum")])
    )
    rank_R = np.unique(sums["rank"].to_numpy())
    step_S = np.unique(sums["step"].to_numpy())

    def ms(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        rows = sums.filter(pc.equal(sums["kind"], name))
        found = np.zeros((rank_R.size, step_S.size))
        at = np.searchsorted(rank_R, rows["rank"]), np.searchsorted(step_S, rows["step"])
        found[at] = rows["dur_ns_sum"].to_numpy() / 1e6
        return found

    sections = {name: ms(name) for name in ("data_wait", "forward", "backward", "optimizer")}
    compute = sections["forward"] + sections["backward"] - ms("tp_comm")
    times_ms = {name: column.tolist() for name, column in sections.items()}
    path.write_text(json.dumps({"sections": times_ms, "kernels": {"compute": compute.tolist()}}))


def write_kineto(spans: pa.Table, folder: Path, last_step: int) -> None:
    """A profile per rank, as rank0.json and so on: kernels, their launches, profiler steps."""
    folder.mkdir()
    steps = range(last_step - KINETO_STEPS + 1, last_step + 1)
    chosen = spans.filter(pc.is_in(spans["step"], pa.array(steps))).sort_by("ts_ns")
    for rank in pc.unique(chosen["rank"]).to_pylist():
        rows = chosen.filter(pc.equal(chosen["rank"], rank)).to_pylist()
        document = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": rank, "backend": "nccl"},
            "traceEvents": _events(rows),
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(document))


def _events(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for step in sorted({row["step"] for row in rows}):
        own = [row for row in rows if row["step"] == step]
        begin_us = min(row["ts_ns"] for row in own) // 1000
        end_us = max(row["ts_ns"] + row["dur_ns"] for row in own) // 1000
        found.append(
            _event("user_annotation", f"ProfilerStep#{step}", begin_us, end_us - begin_us, HOST_PID)
        )
    for number, row in enumerate(row for row in rows if _is_kernel(row)):
        begin_us, dur_us = row["ts_ns"] // 1000, max(row["dur_ns"] // 1000, 1)
        stream = COMM_STREAM if row["kind"].endswith("_comm") else COMPUTE_STREAM
        name = _NCCL.get(row["name"], row["name"])
        linked = {"correlation": number + 1, "External id": number + 1}
        launch = _event("cuda_runtime", "cudaLaunchKernel", begin_us, 1, HOST_PID)
        kernel = _event("kernel", name, begin_us, dur_us, DEVICE_PID)
        found.append(launch | {"args": linked})
        found.append(kernel | {"tid": stream, "args": {**linked, "stream": stream, "device": 0}})
    return found


def _is_kernel(row: dict[str, Any]) -> bool:
    is_compute = row["kind"] in ("forward", "backward", "optimizer") and row["depth"] == 0
    return is_compute or row["kind"].endswith("_comm")


def _event(cat: str, name: str, ts: int, dur: int, pid: int) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": pid}
