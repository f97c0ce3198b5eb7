"""The workers of a rank's data loaders: their rings, and how much memory they take.

While a loader starts its workers, its worker_init_fn is one that also opens a ring in each worker;
right after, the user's own is back. The rank reads the rings on the drain thread, and adds the
workers' draws of each source to its own. A ring's file is removed as soon as its worker has mapped
it, so that a job that is killed leaves none behind.

Misses: workers that are no processes of torch's DataLoader. Costs: a worker takes some 9 us a
fetch and 8 us a sample of a ConcatDataset (benchmarks/event_costs.py). To divide shared pages among
their users the kernel walks all pages of a worker, which may take a second: one worker is asked at
a time, and seldom enough to take SHARE of the time.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_hooks.recording.fetch_ring import FetchRing
from trace_hooks.recording.recorder import Recorder
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.mixtures.draws import Draws
from trace_hooks.sources.training.worker_fetches import UNTIMED_NS, WorkerStart

MEMORY_EVERY_S = 10.0
"""How often the workers' resident memory is read, and one worker's shared pages at most."""

SHARE = 0.001
"""Of a core, for walking pages."""

_SHARED_MEMORY = Path("/dev/shm")
_numbers = itertools.count()


@dataclass
class _Worker:
    """`loader`: the number of the loader's iterator in this process."""

    loader: int
    worker: int
    path: Path
    ring: FetchRing
    is_linked: bool = True

    def unlink(self) -> None:
        """Remove the file; both sides keep it mapped."""
        if self.is_linked:
            self.is_linked = False
            self.path.unlink(missing_ok=True)


class LoaderWorkers:
    """Rings of all workers that this rank's loaders have started; their draws go into `draws`."""

    def __init__(self, recorder: Recorder, draws: Draws) -> None:
        self._recorder, self._draws = recorder, draws
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()  # between the drain thread and the end of training
        self._next_memory_s = self._next_walk_s = 0.0
        self._turn = 0

    def prepare(self, loader: Any) -> WorkerStart | None:
        """Make rings for the workers that `loader` is about to start, and have them open these."""
        goes_on = loader.persistent_workers and getattr(loader, "_iterator", None) is not None
        if not loader.num_workers or goes_on:
            return None
        number = next(_numbers)
        folder = Path(tempfile.gettempdir())
        if os.access(_SHARED_MEMORY, os.W_OK):
            folder = _SHARED_MEMORY
        made: list[_Worker] = []
        try:
            for worker in range(loader.num_workers):
                path = folder / f"trace_hooks-{uuid.uuid4().hex}.fetches"
                made.append(_Worker(number, worker, path, FetchRing.create(path)))
            start = WorkerStart(loader.worker_init_fn, [one.path for one in made])
            loader.worker_init_fn = start
        except (OSError, AttributeError, TypeError, ValueError):
            # no room, or a loader that takes no such function: it starts as without us
            for one in made:
                one.unlink()
            return None
        self._workers += made
        return start

    def restore(self, loader: Any, start: WorkerStart) -> None:
        """The workers have started: the loader has its own function again."""
        if loader.worker_init_fn is start:
            loader.worker_init_fn = start.own

    def poll(self) -> None:
        """Record what the workers have fetched since (drain thread)."""
        with self._lock:
            for one in list(self._workers):
                pid = one.ring.pid
                if pid:
                    one.unlink()
                has_ended = bool(pid) and not Path(f"/proc/{pid}").exists()
                self._add(one)
                if has_ended:
                    self._workers.remove(one)
            self._add_memory()

    def close(self) -> None:
        """Record the last fetches, and remove what is left."""
        with self._lock:
            for one in self._workers:
                self._add(one)
                one.unlink()
            self._workers.clear()

    def _add(self, one: _Worker) -> None:
        pid, lost = one.ring.pid, one.ring.lost
        for fetched in one.ring.take():
            if fetched.is_source:
                self._draws.plan_one(fetched.source, fetched.planned)
                self._draws.add(fetched.source, fetched.samples)
            if fetched.wall_ns == UNTIMED_NS:
                continue
            self._recorder.add_row(
                "loader_fetches",
                ts_ns=fetched.begin_ns,
                loader=one.loader,
                worker=one.worker,
                pid=pid,
                fetch=fetched.fetch,
                source=fetched.source,
                samples=fetched.samples,
                wall_ns=fetched.wall_ns,
                cpu_ns=fetched.cpu_ns,
                transform=fetched.transform,
                transform_ns=fetched.transform_ns,
                read_bytes=fetched.read_bytes,
            )
        self._recorder.dropped += one.ring.lost - lost

    def _add_memory(self) -> None:
        seconds = time.monotonic()
        alive = [one for one in self._workers if one.ring.pid]
        if not alive or seconds < self._next_memory_s:
            return
        self._next_memory_s = seconds + MEMORY_EVERY_S
        walked = None
        if seconds >= self._next_walk_s:
            self._turn += 1
            walked = alive[self._turn % len(alive)]
        for one in alive:
            pss = proportional_bytes(one.ring.pid) if one is walked else UNKNOWN
            rss = resident_bytes(one.ring.pid)
            if rss is not None:
                self._recorder.add_row(
                    "loader_memory",
                    ts_ns=time.perf_counter_ns(),
                    loader=one.loader,
                    worker=one.worker,
                    pid=one.ring.pid,
                    pss_bytes=pss,
                    rss_bytes=rss,
                )
        if walked is not None:
            self._next_walk_s = time.monotonic() + (time.monotonic() - seconds) / SHARE


def resident_bytes(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Of a process; None where it has ended."""
    with suppress(OSError, ValueError, IndexError):
        pages = int((proc / str(pid) / "statm").read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None


def proportional_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Of a process, shared pages divided by their users; -1 where the system does not say it."""
    with suppress(OSError, ValueError, IndexError):
        text = (proc / str(pid) / "smaps_rollup").read_bytes()
        return int(text.partition(b"\nPss:")[2].split(maxsplit=1)[0]) * 1024
    return UNKNOWN
