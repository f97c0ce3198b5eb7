"""Memory that forwards of a pipeline stage leave allocated until their backwards.

Sees: what the caching allocator of the current CUDA device holds before and after the first
forwards of some steps; `args` of their spans say by how much it grew. Misses: memory outside the
allocator, and the host's. Costs: two reads of the allocator's counters for each such forward, a
quarter of a millisecond each on an H200; a comparison for every other action.
"""

from __future__ import annotations

import torch

from trace_hooks.recording.recorder import Extra
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.training.memory import cuda_counters

FORWARDS = 4
"""Micro-batches of a step whose forwards are read."""

_FIRST, _EVERY = 4, 64
"""Steps 1 to 3 are read, as step 0 warms up, then every 64th."""


def allocated_before(kind: str, microbatch: int, step: int) -> int:
    """Bytes allocated before an action of these; -1 where it is not read."""
    is_due = kind == "forward" and 0 <= microbatch < FORWARDS and step > 0
    if not is_due or (step >= _FIRST and step % _EVERY):
        return UNKNOWN
    return allocated()


def kept(before: int) -> Extra | None:
    """What the span says after the action; `before`: of allocated_before."""
    after = UNKNOWN if before == UNKNOWN else allocated()
    return None if after == UNKNOWN else Extra(args=f'{{"kept":{after - before}}}')


def allocated() -> int:
    """Bytes; -1 where CUDA is not in use."""
    return cuda_counters()["allocated"] if torch.cuda.is_initialized() else UNKNOWN
