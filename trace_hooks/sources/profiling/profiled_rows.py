"""Events of torch's profiler as spans: kinds, tracks, nesting, steps."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

KINDS = {
    "cpu_op": "host",
    "user_annotation": "host",
    "cuda_runtime": "host",
    "cuda_driver": "host",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memcpy",
}
"""Kind of span by the profiler's; others (such as its own overhead) are left out."""

_CALL = re.compile(r"(?:cu|cuda|hip)[A-Z]")
"""Functions of the runtime and the driver."""

_OVERHEAD = frozenset(
    (
        "Activity Buffer Request",
        "Buffer Flush",
        "Command Buffer Full",
        "Driver Compiler",
        "Instrumentation",
        "Lazy Function Loading",
        "Resource",
        "Runtime Triggered Module Loading",
        "Unknown",
    )
)
"""Work of the profiler and of the driver. Source: libkineto, ActivityType OVERHEAD."""

STEP = "ProfilerStep#"
"""Name of the annotation around a step, by which readers of the profiler's file find steps."""


class ProfiledSpan(NamedTuple):
    """One span with the profiler's times, Unix ns."""

    name: str
    kind: str
    track: str
    depth: int
    begin_ns: int
    end_ns: int


def spans_of(
    events: Sequence[Any], most: int, thread_name: Callable[[int], str]
) -> Iterator[ProfiledSpan]:
    """Spans of Kineto events, those of each track in order of time; the first `most` events only.

    `thread_name` names a thread by the number the system has for it.
    """
    wanted = [event for event in events if activity(event) in KINDS]
    if len(wanted) > most:
        wanted = sorted(wanted, key=lambda event: event.start_ns())[:most]
    wanted.sort(key=lambda e: (_place(e), e.start_ns(), -e.end_ns()))
    place: tuple[int, int, int] | None = None
    track, open_ends = "", list[int]()
    for event in wanted:
        name, begin_ns, end_ns = event.name(), event.start_ns(), event.end_ns()
        if _place(event) != place:
            place, open_ends = _place(event), []
            track = _track(*place, thread_name)
        if name.startswith(STEP):
            continue
        while open_ends and open_ends[-1] <= begin_ns:
            open_ends.pop()
        kind = _kind(activity(event), name)
        yield ProfiledSpan(name, kind, track, len(open_ends), begin_ns, end_ns)
        open_ends.append(end_ns)


def activity(event: Any) -> str:
    """What the profiler calls the kind of an event; '' for its own overhead and what is hidden.

    Events of torch before 2.12 do not say it: there it follows from their device and their name.
    """
    if hasattr(event, "activity_type"):
        return str(event.activity_type())
    name = event.name()
    if event.device_type().name == "CPU":
        if event.is_user_annotation():
            return "user_annotation"
        if _CALL.match(name):
            return "cuda_runtime"
        return "" if name in _OVERHEAD else "cpu_op"
    if event.is_user_annotation():
        return ""  # the shadow of an annotation on the device
    copies = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
    return copies.get(name[:6], "kernel")


def _kind(activity_type: str, name: str) -> str:
    if activity_type == "kernel" and name.startswith("nccl"):
        return "other_comm"  # it waits for other ranks, which is not compute
    return KINDS[activity_type]


def _place(event: Any) -> tuple[int, int, int]:
    """(whether on a device, device, thread or stream)."""
    if KINDS[activity(event)] == "host":
        return 0, 0, event.device_resource_id()
    return 1, event.device_index(), event.device_resource_id()


def _track(on_device: int, device: int, number: int, thread_name: Callable[[int], str]) -> str:
    if on_device:
        return f"cuda:{device} stream {number}"
    return f"ops {thread_name(number)}"


class StepWindows:
    """When captured steps began, in any clock, to find the step of a time."""

    def __init__(self) -> None:
        self.begins_ns: list[int] = []
        self.numbers: list[int] = []

    def add(self, number: int, begin_ns: int) -> None:
        """A step has begun."""
        self.begins_ns.append(begin_ns)
        self.numbers.append(number)

    def at(self, time_ns: int) -> int:
        """The step that had begun last; kernels run on after the host has left their step."""
        return self.numbers[max(0, bisect_right(self.begins_ns, time_ns) - 1)]
