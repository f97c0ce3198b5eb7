"""What runs inside a data loader's worker: it times each fetch and writes it into a ring.

`WorkerStart` takes the place of the loader's worker_init_fn while the workers start, and calls the
user's own first. It can be pickled, for workers that are spawned. Nothing of it reaches the
batches: the fetcher's own function is called with what it was given, and its result and errors
pass. It times each sample of a ConcatDataset, so that each of its datasets has figures of its own.
"""

from __future__ import annotations

import bisect
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trace_hooks.recording.fetch_ring import FetchRing

_UNHARMED = suppress(Exception)
"""Around what only records: batches matter more. The samples themselves raise as ever."""


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


class Worker:
    """Times the fetches of this process."""

    current: Worker | None = None

    def __init__(self, ring: FetchRing) -> None:
        self._ring = ring
        self._io = _opened("/proc/self/io")
        self._number = 0
        self._is_fetching = self._is_in_source = False
        self._of_fetch = _Spent()
        self._by_source: dict[str, _Spent] = {}
        self._names: dict[int, list[str]] = {}  # of the datasets of each ConcatDataset, by its id
        self._running = self._of_fetch  # takes the transforms

    def install(self) -> None:
        """Time every fetcher of torch that this process makes."""
        from torch.utils.data import ConcatDataset
        from torch.utils.data._utils import fetch

        for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            fetcher.fetch = self.timed_fetch(fetcher.fetch)
        ConcatDataset.__getitem__ = self.timed_sample(ConcatDataset.__getitem__)
        Worker.current = self

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
            begun_ns = time.perf_counter_ns()
            before = self._now()
            try:
                batch = original(fetcher, index)
            finally:
                self._is_fetching = False
            with _UNHARMED:
                self._add(spent, before)
                spent.samples = len(index) if isinstance(index, (list, tuple)) else 1
                self._write(begun_ns, type(fetcher.dataset).__name__)
            return batch

        return fetch

    def timed_sample(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The `__getitem__` of ConcatDataset, of which each dataset is a source."""

        @functools.wraps(original)
        def __getitem__(dataset: Any, index: int) -> Any:
            if self._is_in_source or not self._is_fetching:  # one inside of another
                return original(dataset, index)
            name = self._source_of(dataset, index)
            self._is_in_source = True
            self._running = spent = self._by_source.setdefault(name, _Spent())
            before = self._now()
            try:
                return original(dataset, index)
            finally:
                self._is_in_source = False
                self._running = self._of_fetch
                self._add(spent, before)
                spent.samples += 1

        return __getitem__

    def _source_of(self, dataset: Any, index: int) -> str:
        with _UNHARMED:  # the sample itself may raise what is wrong with it
            names = self._names.get(id(dataset))
            if names is None:
                names = self._names[id(dataset)] = source_names(dataset.datasets)
            index += len(dataset) if index < 0 else 0
            return names[bisect.bisect_right(dataset.cumulative_sizes, index)]
        return type(dataset).__name__

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
            )

    def _read_bytes(self) -> int:
        """By read calls of this process so far; -1 unknown."""
        if self._io < 0:
            return -1
        with suppress(OSError, ValueError, IndexError):
            return int(os.pread(self._io, 64, 0).split(b"\n", 1)[0].split()[1])  # rchar: N
        return -1


def source_names(datasets: Sequence[Any]) -> list[str]:
    """A name for each dataset: its attribute `source` or `name` where that is a text, else its
    class; with a number where that would give two the same.
    """
    names = []
    for dataset in datasets:
        given = (getattr(dataset, "source", None), getattr(dataset, "name", None))
        names.append(next((n for n in given if isinstance(n, str) and n), type(dataset).__name__))
    return [
        f"{name} {names[:place].count(name)}" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


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
        worker = Worker.current
        if worker is not None:
            worker.add_transform(name, time.perf_counter_ns() - begun_ns)
