"""Forward passes that activation checkpointing ran again, in a torch.profiler file.

Without reentrance they run inside Python's `recompute_fn` (recorded where `with_stack=True`), with
it inside the operator `CheckpointFunctionBackward`; autograd's nodes inside these are backward.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ingest.intervals import owned_segments

_AGAIN = re.compile(
    r"CheckpointFunctionBackward|\S*torch/utils/checkpoint\.py\(\d+\): (?:recompute_fn|unpack)"
)
_NODE = "autograd::engine::evaluate_function"

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Recomputed:
    """When each thread ran a forward pass again.

    N spans: code of their name in `names`, thread, begin and end in ns.
    """

    def __init__(
        self, names: Sequence[str], name_N: Ints, thread_N: Ints, begin_N: Ints, end_N: Ints
    ) -> None:
        again = np.array([bool(_AGAIN.fullmatch(name)) for name in names], np.bool_)
        self.any = bool(again.any())
        """whether there is anything of it: without, nothing else is looked at"""
        if not self.any:
            return
        node = np.array([name.startswith(_NODE) for name in names], np.bool_)
        rows = np.flatnonzero((again | node)[name_N])
        # ordinals for times: ns of damaged files would not fit into the keys of intervals
        self._times = np.unique(np.concatenate((begin_N[rows], end_N[rows])))
        begin, end = (np.searchsorted(self._times, ns[rows]) for ns in (begin_N, end_N))
        segments = owned_segments(thread_N[rows].astype(np.int64), begin, end)
        own = again[name_N[rows[segments.owner_E]]]
        self._thread_E = thread_N[rows[segments.owner_E[own]]].astype(np.int64)
        self._begin_E, self._end_E = segments.begin_E[own], segments.end_E[own]

    def holds(self, thread_N: Ints, ts_ns_N: Ints) -> Bools:
        """Whether each (thread, time) lies in such a forward pass."""
        is_held = np.zeros(len(thread_N), np.bool_)
        if not self.any or not len(self._begin_E):
            return is_held
        at_N = np.searchsorted(self._times, ts_ns_N, side="right") - 1
        width = len(self._times) + 1
        key_E = self._thread_E * width + self._begin_E
        order = np.argsort(key_E)
        inside = at_N >= 0
        key_N = thread_N.astype(np.int64) * width + at_N
        last = np.searchsorted(key_E[order], key_N, side="right") - 1
        inside &= (last >= 0) & (thread_N >= 0)
        segment = order[np.maximum(last, 0)]
        is_held[:] = inside & (self._thread_E[segment] == thread_N) & (at_N < self._end_E[segment])
        return is_held
