"""What runs inside a data loader's worker: it times each fetch and writes it into a ring.

`WorkerStart` takes the place of the loader's worker_init_fn while the workers start, and calls the
user's own first. It can be pickled, for workers that are spawned. Nothing of it reaches the
batches: the fetcher's own function is called with what it was given, and its result and errors
pass. The samples of mixtures count by source (sources/mixtures); where one call makes a sample, as
of a ConcatDataset, each source has figures of its own.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trace_hooks.recording.fetch_ring import FetchRing
from trace_hooks.sources.mixtures.draws import UNHARMED, Draws
from trace_hooks.sources.mixtures.libraries import libraries

UNTIMED_NS = UNKNOWN_BYTES = -1
UNKNOWN_SHARE = -1.0


class WorkerStart:
    """worker_init_fn of a loader; `rings`: files of its workers, in order of their ids."""

    def __init__(self, own: Callable[[int], object] | None, rings: list[Path]) -> None:
        self.own, self._rings = own, rings

    def __call__(self, worker: int) -> None:
        """Called in the worker."""
        if self.own is not None:
            self.own(worker)
        with suppress(OSError, ValueError, ImportError, AttributeError, IndexError):
            Worker(FetchRing.open(self._rings[worker])).install()


class _Spent:
    """What samples took: of a whole fetch, or of one source in it."""

    __slots__ = ("cpu_ns", "read_bytes", "samples", "transforms", "wall_ns")

    def __init__(self) -> None:
        self.samples = self.wall_ns = self.cpu_ns = self.read_bytes = 0
        self.transforms: dict[str, int] = {}  # ns by name


class Worker(Draws):
    """Times the fetches of this process, and counts their samples."""

    def __init__(self, ring: FetchRing) -> None:
        super().__init__()
        self._ring = ring
        self._io = _opened("/proc/self/io")
        self._number = 0
        self._is_fetching = False
        self._of_fetch = _Spent()
        self._by_source: dict[str, _Spent] = {}
        self._running = self._of_fetch  # takes the transforms

    def install(self) -> None:
        """Time every fetcher of torch that this process makes."""
        from torch.utils.data._utils import fetch

        for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            fetcher.fetch = self.timed_fetch(fetcher.fetch)
        Draws.current = self
        libraries.adapt()

    def add_transform(self, name: str, ns: int) -> None:
        """Time of a marked part of the fetch that runs."""
        transforms = self._running.transforms
        transforms[name] = transforms.get(name, 0) + ns

    def timed_fetch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The fetch of a fetcher's class, recorded."""

        @functools.wraps(original)
        def fetch(fetcher: Any, index: Any) -> Any:
            if self._is_fetching:  # a loader inside of a dataset
                return original(fetcher, index)
            self._is_fetching = True
            self._of_fetch = self._running = spent = _Spent()
            self._by_source = {}
            libraries.adapt()  # those that the dataset imports itself
            begun_ns = time.perf_counter_ns()
            before = self._now()
            try:
                batch = original(fetcher, index)
            finally:
                self._is_fetching = False
            with UNHARMED:
                self._add(spent, before)
                spent.samples = len(index) if isinstance(index, (list, tuple)) else 1
                self._write(begun_ns, type(fetcher.dataset).__name__)
            return batch

        return fetch

    def begin(self, source: str) -> tuple[_Spent, tuple[int, int, int]] | None:
        """A sample, timed until `end`."""
        if not self._is_fetching or not self.enter():
            return None
        self._running = spent = self._by_source.setdefault(source, _Spent())
        return spent, self._now()

    def end(self, begun: tuple[_Spent, tuple[int, int, int]]) -> None:
        """The sample is made, or has raised."""
        spent, before = begun
        self.leave()
        self._running = self._of_fetch
        self._add(spent, before)
        spent.samples += 1

    def _now(self) -> tuple[int, int, int]:
        """Wall and CPU ns, and bytes read so far (-1 unknown)."""
        return time.perf_counter_ns(), time.thread_time_ns(), self._read_bytes()

    def _add(self, spent: _Spent, before: tuple[int, int, int]) -> None:
        wall_ns, cpu_ns, read = self._now()
        spent.wall_ns += wall_ns - before[0]
        spent.cpu_ns += cpu_ns - before[1]
        is_known = before[2] >= 0 and read >= 0 and spent.read_bytes >= 0
        spent.read_bytes = spent.read_bytes + read - before[2] if is_known else -1

    def _write(self, begun_ns: int, name: str) -> None:
        self._number += 1
        for source, spent in (self._by_source or {name: self._of_fetch}).items():
            transforms = spent.transforms
            self._ring.write(
                begun_ns,
                spent.wall_ns,
                spent.cpu_ns,
                sum(transforms.values()),
                spent.read_bytes,
                self._number,
                spent.samples,
                source,
                max(transforms, key=transforms.__getitem__, default=""),
                bool(self._by_source),
                self.planned.get(source, UNKNOWN_SHARE),
            )
        for source, samples in self.take().items():
            planned = self.planned.get(source, UNKNOWN_SHARE)
            where = begun_ns, UNTIMED_NS, 0, 0, UNKNOWN_BYTES, self._number
            self._ring.write(*where, samples, source, "", True, planned)

    def _read_bytes(self) -> int:
        """By read calls of this process so far; -1 unknown."""
        if self._io < 0:
            return -1
        with suppress(OSError, ValueError, IndexError):
            return int(os.pread(self._io, 64, 0).split(b"\n", 1)[0].split()[1])  # rchar: N
        return -1


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


@contextmanager
def transform(name: str) -> Iterator[None]:
    """See trace_hooks.transform."""
    begun_ns = time.perf_counter_ns()
    try:
        yield
    finally:
        draws = Draws.current
        if draws is not None:
            draws.add_transform(name, time.perf_counter_ns() - begun_ns)
