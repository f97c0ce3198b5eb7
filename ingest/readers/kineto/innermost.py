"""Which of many nested spans runs on a thread at a time: the innermost one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ingest.intervals import owned_segments

Ints = npt.NDArray[np.int64]


class Innermost:
    """N spans by thread, begin and end in ns, of any size: damaged files hold absurd times."""

    def __init__(self, thread_N: Ints, begin_N: Ints, end_N: Ints) -> None:
        # ordinals for times: absurd ones would not fit into the keys of intervals
        self._times = np.unique(np.concatenate((begin_N, end_N)))
        begin, end = (np.searchsorted(self._times, ns) for ns in (begin_N, end_N))
        segments = owned_segments(thread_N.astype(np.int64), begin, end)
        self._width = len(self._times) + 1
        key_E = thread_N[segments.owner_E].astype(np.int64) * self._width + segments.begin_E
        order_E = np.argsort(key_E)
        self._key_E, self._owner_E = key_E[order_E], segments.owner_E[order_E]
        self._thread_E, self._end_E = thread_N[self._owner_E], segments.end_E[order_E]

    def at(self, thread_M: Ints, ts_ns_M: Ints) -> Ints:
        """Index of the span on each thread at each time, -1 none; thread -1 has none."""
        found_M = np.full(len(thread_M), -1, np.int64)
        if not len(self._key_E):
            return found_M
        at_M = np.searchsorted(self._times, ts_ns_M, side="right") - 1
        key_M = thread_M.astype(np.int64) * self._width + at_M
        last_M = np.searchsorted(self._key_E, key_M, side="right") - 1
        inside_M = (at_M >= 0) & (last_M >= 0) & (thread_M >= 0)
        inside_M &= (self._thread_E[last_M] == thread_M) & (at_M < self._end_E[last_M])
        found_M[inside_M] = self._owner_E[last_M[inside_M]]
        return found_M
