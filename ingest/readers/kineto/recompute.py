"""Forward passes that activation checkpointing ran again, in a torch.profiler file.

Without reentrance they run inside Python's `recompute_fn` (recorded where `with_stack=True`), with
it inside the operator `CheckpointFunctionBackward`; autograd's nodes inside these are backward.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ingest.readers.kineto.innermost import Innermost

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
        self.any = bool(again[name_N].any())
        """whether there is anything of it: without, nothing else is looked at"""
        if not self.any:
            return
        node = np.array([name.startswith(_NODE) for name in names], np.bool_)
        rows = np.flatnonzero((again | node)[name_N])
        self._innermost = Innermost(thread_N[rows], begin_N[rows], end_N[rows])
        self._again_R = again[name_N[rows]]

    def holds(self, thread_N: Ints, ts_ns_N: Ints) -> Bools:
        """Whether each (thread, time) lies in such a forward pass."""
        if not self.any:
            return np.zeros(len(thread_N), np.bool_)
        at_N = self._innermost.at(thread_N, ts_ns_N)
        is_held: Bools = (at_N >= 0) & self._again_R[at_N]
        return is_held
