"""Memory counters, at the end of a step, ten times a second at most.

Sees: resident memory of the process and, where CUDA is in use, the caching allocator's counters of
the current device. Misses: peaks of resident memory between two steps, and memory that CUDA
libraries take outside the allocator. Costs: one small file read and one call into the allocator,
a quarter of a millisecond on an H200, each time; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import torch

from trace_hooks.recording.clock import now
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

CUDA_COUNTERS = {
    "allocated": ("allocated_bytes", "all", "current"),
    "reserved": ("reserved_bytes", "all", "current"),
    "peak": ("allocated_bytes", "all", "peak"),
    "retries": ("num_alloc_retries",),
}
"""Column of the table memory: keys in torch.cuda.memory_stats_as_nested_dict(). memory_stats()
would flatten and sort all of its counters, which takes 44 us."""


LEAST_S = 0.1
"""A job with shorter steps has a row in some of them; the peak counts until the next row."""


class Memory(Source):
    """A row of memory counters a step, in short steps less often."""

    name = "memory"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._next_ns = 0

    def step_end(self) -> None:
        """Read the counters."""
        at_ns = now()
        if at_ns >= self._next_ns:
            self._next_ns = at_ns + round(LEAST_S * 1e9)
            self.recorder.add_row("memory", ts_ns=at_ns, rss=resident_bytes(), **cuda_counters())


def resident_bytes() -> int:
    """Bytes of this process in memory; the peak so far where the system has no /proc."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cuda_counters() -> dict[str, int]:
    """The allocator's counters by column; -1 where CUDA is not in use."""
    stats = torch.cuda.memory_stats_as_nested_dict() if torch.cuda.is_initialized() else {}
    return {column: _counter(stats, keys) for column, keys in CUDA_COUNTERS.items()}


def _counter(stats: Any, keys: tuple[str, ...]) -> int:
    for key in keys:
        if key not in stats:
            return UNKNOWN
        stats = stats[key]
    return int(stats)
