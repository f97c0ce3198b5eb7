"""Files as torch.profiler writes them, built by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE_NS = 1719853884000000000
TS = 4212936054935.310  # us after BASE_NS

GPU = {"pid": 0, "tid": 7}
"""Process and thread of what runs on the device."""

Json = dict[str, Any]


def event(name: str, ts: float, dur: float, cat: str = "cpu_op", **more: Any) -> Json:
    """A complete event at TS + ts us."""
    place = {"pid": 0, "tid": 7} if cat in ("kernel", "gpu_memcpy") else {"pid": 42, "tid": 42}
    return {"ph": "X", "cat": cat, "name": name, "ts": TS + ts, "dur": dur, **place, **more}


def step(number: int, ts: float, dur: float, cat: str = "user_annotation") -> Json:
    """A step as the profiler's schedule marks it."""
    return event(f"ProfilerStep#{number}", ts, dur, cat)


def flow(phase: str, number: Any, ts: float, cat: str = "ac2g", **place: Any) -> Json:
    """One end of the arrow `number`, from a call to what it launched."""
    return event("ac2g", ts, 0, cat, ph=phase, id=number, **place)


def collective(op: str, **more: Any) -> Json:
    """Arguments PyTorch writes about a collective of group "7" over ranks 0 and 1."""
    return {
        "Collective name": op,
        "In msg nelems": 100,
        "Out msg nelems": 50,
        "dtype": "BFloat16",
        "Group size": 2,
        "Process Group Name": "7",
        "Process Group Ranks": "[0, 1]",
        **more,
    }


def write(path: Path, events: list[Json], rank: int | None = 0, **header: Any) -> Path:
    """A profiler file; its times have three decimals, as PyTorch writes them."""
    document = {"schemaVersion": 1, "deviceProperties": []}
    if rank is not None:
        document["distributedInfo"] = {"rank": rank, "world_size": 2, "backend": "nccl"}
    document |= {"traceEvents": events, "baseTimeNanoseconds": BASE_NS, **header}
    document = {key: value for key, value in document.items() if value is not None}
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(document))
    return path
