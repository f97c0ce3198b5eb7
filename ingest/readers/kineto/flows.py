"""Which call launched what on the GPU: the flow events of a torch.profiler file.

A flow begins (`s`) on the thread and at the time of the call and ends (`f`) exactly where and when
the kernel or copy begins; both carry one id. Calls of before the recording have no flow.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.readers.parsing.exact_times import microseconds_to_ns
from ingest.readers.parsing.trace_events import MAX_COUNT, Event

LAUNCH_FLOWS = frozenset({"ac2g", "async_gpu", "async"})
"""Categories of today, of PyTorch 1.10 to 1.12 and of 1.8; `fwdbwd` joins operators."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Launches:
    """Of N spans: the thread that launched each, -1 unknown, and when (ns)."""

    thread_N: Ints
    ts_ns_N: Ints

    def renumbered(self, number_T: Ints) -> Launches:
        """With these numbers for the T threads."""
        if not len(number_T):
            return self
        thread_N = np.where(self.thread_N >= 0, number_T[self.thread_N], -1)
        return Launches(thread_N, self.ts_ns_N)

    def of(self, chosen: Bools) -> Launches:
        """Those of some of the spans."""
        return Launches(self.thread_N[chosen], self.ts_ns_N[chosen])


class Flows:
    """Both ends of all launches of one file, some 20 bytes an end."""

    def __init__(self, threads: dict[tuple[Any, Any], int]) -> None:
        """`threads` numbers (pid, tid), also those it has not seen."""
        self._threads = threads
        self._begins, self._ends = _Ends(), _Ends()

    def add(self, events: Iterable[Event]) -> None:
        """Take the flow events among these."""
        flows = [e for e in events if e.ph in ("s", "f") and e.cat in LAUNCH_FLOWS]
        ts_ns, readable = microseconds_to_ns([event.ts for event in flows])
        for event, at_ns, is_readable in zip(flows, ts_ns.tolist(), readable.tolist(), strict=True):
            if is_readable and type(event.id) is int and 0 <= event.id < MAX_COUNT:
                ends = self._begins if event.ph == "s" else self._ends
                ends.add(event.id, self._threads[event.pid, event.tid], at_ns)

    def launches(self, thread_N: Ints, ts_ns_N: Ints) -> Launches:
        """What launched the spans that begin on these threads and at these times."""
        at_end_N = _found(self._ends.keys(thread_N, ts_ns_N))
        ids = self._ends.column("number")
        id_N = ids[at_end_N] if len(ids) else np.empty(0, np.int64)
        own_N = at_end_N >= 0
        thread, ts_ns = np.full(len(thread_N), -1, np.int64), np.zeros(len(thread_N), np.int64)
        if own_N.any():
            begins = self._begins.column("number")
            at_begin = _found((begins, id_N[own_N]))
            known = np.flatnonzero(own_N)[at_begin >= 0]
            at_begin = at_begin[at_begin >= 0]
            thread[known] = self._begins.column("thread")[at_begin]
            ts_ns[known] = self._begins.column("ts_ns")[at_begin]
        return Launches(thread, ts_ns)


class _Ends:
    """One end of every flow."""

    def __init__(self) -> None:
        self._columns = {"number": array("q"), "thread": array("i"), "ts_ns": array("q")}

    def add(self, number: int, thread: int, ts_ns: int) -> None:
        for column, value in zip(self._columns.values(), (number, thread, ts_ns), strict=True):
            column.append(value)

    def column(self, name: str) -> Ints:
        values = self._columns[name]
        if not len(values):
            return np.empty(0, np.int64)
        return np.frombuffer(values, np.dtype(values.typecode)).astype(np.int64)

    def keys(self, thread_N: Ints, ts_ns_N: Ints) -> tuple[Ints, Ints]:
        """One number for each (thread, time) of the ends, and of the given spans."""
        times, dense = np.unique(
            np.concatenate((self.column("ts_ns"), ts_ns_N)), return_inverse=True
        )
        threads = np.concatenate((self.column("thread"), thread_N.astype(np.int64)))
        keys = threads * (len(times) + 1) + dense
        return keys[: len(keys) - len(thread_N)], keys[len(keys) - len(thread_N) :]


def _found(keys: tuple[Ints, Ints]) -> Ints:
    """Index of each wanted key among those there are, -1 for none; the first of equal ones."""
    there, wanted = keys
    if not len(there):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(there, kind="stable")
    nearest = np.minimum(np.searchsorted(there[order], wanted), len(there) - 1)
    return np.where(there[order][nearest] == wanted, order[nearest], -1)
