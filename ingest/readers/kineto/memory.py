"""Memory counters of a torch.profiler file (`profile_memory=True`): one row a step.

Every allocation is an instant `[memory]` with what the allocator of one device holds after
it. The job's devices are the GPUs where any shows up, the CPU otherwise.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ingest.readers.parsing.exact_times import microseconds_to_ns
from ingest.readers.parsing.trace_events import MAX_COUNT, MAX_NS, Event
from trace_hooks.schema import UNKNOWN

MEMORY = "[memory]"
OUT_OF_MEMORY = "[OutOfMemory]"
_CPU = 0  # c10::DeviceType; 1 is CUDA, 6 HIP, 12 XPU
_MOST_DEVICES = 256

Ints = npt.NDArray[np.int64]


class _Args(msgspec.Struct, gc=False):
    allocated: Any = msgspec.field(name="Total Allocated", default=None)
    reserved: Any = msgspec.field(name="Total Reserved", default=None)
    device_type: Any = msgspec.field(name="Device Type", default=None)
    device: Any = msgspec.field(name="Device Id", default=None)


_ARGS = msgspec.json.Decoder(_Args)


class Counters(NamedTuple):
    """By time, sums over the job's devices in bytes; M instants."""

    ts_ns_M: Ints
    allocated_M: Ints
    reserved_M: Ints
    """-1 unknown: PyTorch keeps no cache on the CPU"""


class MemoryEvents:
    """All `[memory]` instants of one file."""

    def __init__(self) -> None:
        self.num_without_totals = 0
        """those of PyTorch before 1.12, which hold what changed, not what there is"""
        self.failures_ns: list[int] = []
        """when memory ran out"""
        self._devices: dict[tuple[bool, int], int] = {}
        self._columns = (array("q"), array("q"), array("q"), array("h"))

    def add(self, events: Iterable[Event]) -> None:
        """Take the memory instants among these."""
        memory_events = [
            e for e in events if e.name in (MEMORY, OUT_OF_MEMORY) and e.ph in ("i", "I")
        ]
        ts_ns, readable = microseconds_to_ns([event.ts for event in memory_events])
        readable &= np.abs(ts_ns) < MAX_NS
        for event, at_ns, is_readable in zip(
            memory_events, ts_ns.tolist(), readable.tolist(), strict=True
        ):
            if is_readable and event.name == OUT_OF_MEMORY:
                self.failures_ns.append(at_ns)
            elif is_readable:
                self._take(event, at_ns)

    def _take(self, event: Event, ts_ns: int) -> None:
        try:
            args = _ARGS.decode(event.args)
        except (ValueError, RecursionError):
            args = _Args()
        if not _is_size(args.allocated):
            self.num_without_totals += 1
            return
        where = (args.device_type == _CPU, args.device if type(args.device) is int else UNKNOWN)
        if where not in self._devices and len(self._devices) == _MOST_DEVICES:
            return
        reserved = args.reserved if _is_size(args.reserved) else 0
        device = self._devices.setdefault(where, len(self._devices))
        for column, value in zip(
            self._columns, (ts_ns, args.allocated, reserved, device), strict=True
        ):
            column.append(value)

    def counters(self) -> Counters:
        """What all devices of the job hold after each instant."""
        ts_ns, allocated, reserved, device = (_as_ints(column) for column in self._columns)
        has_gpu = not all(is_cpu for is_cpu, _ in self._devices)
        own = [code for (is_cpu, _), code in self._devices.items() if not (has_gpu and is_cpu)]
        order = np.argsort(ts_ns, kind="stable")
        order = order[np.isin(device[order], own)]
        sums = [np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)]
        for code in own:
            is_here = device[order] == code
            for total, values in zip(sums, (allocated[order], reserved[order]), strict=True):
                total += _held(values, is_here)
        reserved_M = sums[1] if has_gpu else np.full(len(order), UNKNOWN, np.int64)
        return Counters(ts_ns[order], sums[0], reserved_M)


def _held(values: Ints, is_here: npt.NDArray[np.bool_]) -> Ints:
    """The last value of one device at every instant; 0 before its first."""
    last = np.maximum.accumulate(np.where(is_here, np.arange(len(values)), -1))
    return np.where(last >= 0, values[last], 0)


def _as_ints(column: array[int]) -> Ints:
    if not len(column):
        return np.empty(0, np.int64)
    return np.frombuffer(column, np.dtype(column.typecode)).astype(np.int64)


def _is_size(value: object) -> bool:
    # a sum over all devices fits into int64
    return type(value) is int and 0 <= value < MAX_COUNT // _MOST_DEVICES


def memory_rows(counters: Counters, steps_M: Ints) -> dict[str, Ints]:
    """Columns of `memory`, a row for each step: what is held at its end, and the most so far."""
    last = np.flatnonzero(np.append(steps_M[1:] != steps_M[:-1], True)[: len(steps_M)])
    return {
        "step": steps_M[last],
        "ts_ns": counters.ts_ns_M[last],
        "allocated": counters.allocated_M[last],
        "reserved": counters.reserved_M[last],
        "peak": np.maximum.accumulate(counters.allocated_M)[last],
    }
