"""Events of some steps in torch.profiler's trace: calls into CUDA, work of the device, our marks.

Read from the trace that it exports for Chrome: the profiler's public format, the same in every
version of torch. Times are us after the trace's own base. Without a device the innermost operators
of the CPU replace its work, so that a rehearsal has something to read.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.gpu.figures import NotHere, Place
from trace_hooks.sources.profiling import profiled_rows

STEP = "rankscope step"
_STEPS = (STEP, profiled_rows.STEP)
_CALLS = ("cuda_runtime", "cuda_driver")
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_WAITS = re.compile(r"cu(da)?(Stream|Event|Device|Ctx)Synchronize|cu(da)?Memcpy(?!.*Async)")
_QUERIES = re.compile(r"cudaEventQuery")
_MAY_WAIT = re.compile(r"cuda(Malloc|Free)|cudaHost(Alloc|Register|Unregister)")


class Call(NamedTuple):
    """A call of the host into CUDA."""

    name: str
    at_us: float


class Work(NamedTuple):
    """A kernel or a copy, and when the host launched it."""

    kind: str
    name: str
    begin_us: float
    end_us: float
    launched_us: float

    @property
    def is_kernel(self) -> bool:
        """Whether it computes; operators replace kernels if there is no device."""
        return self.kind in ("kernel", "cpu_op")


@dataclass(frozen=True)
class Profile:
    """All of it, in order of time but for the calls; `base_ns`: Unix ns. `marks`: when annotations
    that are no steps began, by name; `operators`: names of what torch ran on the host.
    """

    base_ns: int
    steps: list[tuple[float, float]]
    calls: list[Call]
    work: list[Work]
    marks: dict[str, float]
    operators: list[str]

    @property
    def kernels(self) -> list[Work]:
        """Work that computes, in order of its start."""
        return [item for item in self.work if item.is_kernel]

    def unix_ns(self, at_us: float) -> int:
        """Of a time in the trace."""
        return self.base_ns + round(at_us * 1e3)

    def launched_in(self, begin_us: float, end_us: float) -> list[Work]:
        """Work whose launch lies in a stretch of time on the host, wherever it ran itself."""
        return [item for item in self.work if begin_us <= item.launched_us < end_us]


@dataclass(frozen=True)
class Counts:
    """Counts between the begin of the first step and the end of the last one.

    `waits`: calls that wait for the device, and copies from or to memory that is not pinned, which
    do as well. `copies`: of any kind. `may_wait`: calls that take memory or give it back.
    """

    waits: int
    copies: int
    kernels: int
    queries: int
    may_wait: int


def profiled(place: Place, step: Callable[[], object], num_steps: int = 1) -> Profile:
    """Steps under torch.profiler, the device at rest before and after them."""
    # with CUDA graphs in the process, CUPTI must not be taken down between two profiles
    os.environ |= {"TEARDOWN_CUPTI": "0", "DISABLE_CUPTI_LAZY_REINIT": "1"}
    activities = [ProfilerActivity.CPU]
    if not place.is_rehearsal:
        activities.append(ProfilerActivity.CUDA)
    place.wait()
    with profile(activities=activities) as profiler:
        for _ in range(num_steps):
            with record_function(STEP):
                step()
        place.wait()
    path = place.new_folder() / "trace.json"
    profiler.export_chrome_trace(str(path))
    found = read_file(path)
    path.unlink()
    return found


def profiled_kernels(place: Place, step: Callable[[], object], num_steps: int) -> Profile:
    """The same; raises NotHere if the trace has no kernels."""
    found = profiled(place, step, num_steps)
    if not found.kernels:
        raise NotHere("torch.profiler saw no kernels; CUPTI may not be allowed here")
    return found


def read_file(path: Path) -> Profile:
    """The events of a trace, packed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return read_trace(json.load(file))


def read_trace(trace: Mapping[str, Any]) -> Profile:
    """The events of a trace in the format of Chrome."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in trace["traceEvents"]:
        if event.get("ph") == "X":
            by_kind.setdefault(event.get("cat", ""), []).append(event)
    calls = [event for kind in _CALLS for event in by_kind.get(kind, ())]
    notes = by_kind.get("user_annotation", [])
    operators = by_kind.get("cpu_op", [])
    work = _device_work(by_kind, calls)
    if not any(kind in by_kind for kind in (*_CALLS, *_WORK)):
        work = _host_work(operators)
    return Profile(
        trace.get("baseTimeNanoseconds", 0),
        sorted((note["ts"], _end(note)) for note in notes if note["name"].startswith(_STEPS)),
        [Call(call["name"], call["ts"]) for call in calls],
        sorted(work, key=lambda item: item.begin_us),
        {note["name"]: note["ts"] for note in notes if not note["name"].startswith(_STEPS)},
        [operator["name"] for operator in operators],
    )


def counts(profile: Profile) -> Counts:
    """Calls and work of the steps; raises ValueError without a step."""
    if not profile.steps:
        raise ValueError("torch.profiler recorded no step")
    begin_us, end_us = profile.steps[0][0], profile.steps[-1][1]
    calls = Counter(call.name for call in profile.calls if begin_us <= call.at_us <= end_us)
    work = [item for item in profile.work if begin_us <= item.launched_us <= end_us]
    copies = [item for item in work if item.kind == "gpu_memcpy"]
    pageable = sum("Pageable" in copy.name for copy in copies)
    return Counts(
        waits=_number(calls, _WAITS) + pageable,
        copies=len(copies),
        kernels=sum(item.is_kernel for item in work),
        queries=_number(calls, _QUERIES),
        may_wait=_number(calls, _MAY_WAIT),
    )


def _number(calls: Counter[str], pattern: re.Pattern[str]) -> int:
    return sum(number for name, number in calls.items() if pattern.match(name))


def _device_work(by_kind: Mapping[str, Any], calls: list[dict[str, Any]]) -> list[Work]:
    launched = {call.get("args", {}).get("correlation"): call["ts"] for call in calls}
    return [
        Work(
            kind,
            one["name"],
            one["ts"],
            _end(one),
            launched.get(one.get("args", {}).get("correlation"), one["ts"]),
        )
        for kind in _WORK
        for one in by_kind.get(kind, ())
    ]


def _host_work(operators: Iterable[dict[str, Any]]) -> list[Work]:
    in_order = sorted(
        operators, key=lambda operator: (operator["tid"], operator["ts"], -operator["dur"])
    )
    innermost = [
        one
        for one, after in pairwise([*in_order, {"tid": None, "ts": 0}])
        if after["tid"] != one["tid"] or after["ts"] >= _end(one)
    ]
    return [Work("cpu_op", one["name"], one["ts"], _end(one), one["ts"]) for one in innermost]


def _end(event: Mapping[str, Any]) -> float:
    end_us: float = event["ts"] + event["dur"]
    return end_us
