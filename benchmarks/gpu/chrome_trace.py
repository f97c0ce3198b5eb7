"""What torch.profiler saw, from the trace it writes: the same in every version of torch."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.figures import Place

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
"""Calls by which a host waits for its device."""


@dataclass(frozen=True)
class TraceEvent:
    """One thing the profiler saw; Unix ns. `correlation` ties a kernel to the call that launched
    it, -1 where there is none.
    """

    name: str
    category: str
    begin_ns: int
    end_ns: int
    correlation: int = -1


def profiled(place: Place, work: Callable[[], object]) -> list[TraceEvent]:
    """Events of `work`, in order of time, and of a wait for the device behind it."""
    kinds = [ProfilerActivity.CPU]
    if not place.is_rehearsal:
        kinds.append(ProfilerActivity.CUDA)
    path = place.folder / "profile.json"
    with profile(activities=kinds) as profiler:
        work()
        place.wait()
    profiler.export_chrome_trace(str(path))
    found = read_trace(path)
    path.unlink()
    return found


def read_trace(path: Path) -> list[TraceEvent]:
    """Events of a Chrome trace, packed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return events_of(json.load(file))


def events_of(trace: dict[str, Any]) -> list[TraceEvent]:
    """Events that last, in order of time."""
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    found = []
    for event in trace["traceEvents"]:
        if event.get("ph") != "X":
            continue
        begin_ns = base_ns + round(float(event["ts"]) * 1e3)
        correlation = event.get("args", {}).get("correlation", -1)
        found.append(
            TraceEvent(
                event["name"], event.get("cat", ""), begin_ns,
                begin_ns + round(float(event.get("dur", 0)) * 1e3), int(correlation),
            )
        )  # fmt: skip
    return sorted(found, key=lambda event: event.begin_ns)


def waits(events: Iterable[TraceEvent]) -> Counter[str]:
    """Calls that wait for the device, and copies to memory of the host that is not pinned."""
    found: Counter[str] = Counter()
    for event in events:
        if event.category in ("cuda_runtime", "cuda_driver"):
            name = event.name.partition("_v")[0]
            found[name] += name in WAITS
        elif event.category == "gpu_memcpy":
            found[event.name] += "DtoH" in event.name and "Pageable" in event.name
    return +found


def launched_in(
    events: Iterable[TraceEvent], begin_ns: int, end_ns: int, category: str = "kernel"
) -> list[TraceEvent]:
    """Kernels whose launch lies in a stretch of time on the host, wherever they ran themselves."""
    listed = list(events)
    launches = {
        event.correlation
        for event in listed
        if event.category in ("cuda_runtime", "cuda_driver")
        and begin_ns <= event.begin_ns < end_ns
        and event.correlation >= 0
    }
    return [e for e in listed if e.category == category and e.correlation in launches]
