"""Telemetry of one host as its watchdog runs it: two threads, one that reads and one that writes.

Neither can stop the watchdog or the job: a hung driver holds up a thread of its own, a hung disk
the writing thread, while samples go on (their number is bounded).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trace_hooks.recording.clock import now
from trace_hooks.telemetry.background import Background
from trace_hooks.telemetry.cgroups import Cgroup
from trace_hooks.telemetry.ethtool import Ethtool
from trace_hooks.telemetry.host import Cpu, Disks, Memory, Pressure, Tcp, VirtualMemory
from trace_hooks.telemetry.infiniband import Infiniband
from trace_hooks.telemetry.job_processes import JobProcesses
from trace_hooks.telemetry.kernel_log import KernelLog
from trace_hooks.telemetry.network import Network, scope_of_network
from trace_hooks.telemetry.processes import Processes
from trace_hooks.telemetry.publisher import HOST_EVERY_S, Publisher, Target
from trace_hooks.telemetry.reading import Source
from trace_hooks.telemetry.sampler import Round, Sampler

if TYPE_CHECKING:
    from trace_hooks.job.spool import Spool

EVERY_S = 1.0
LOOK_S = 1.0
"""How often to look whether a rank knows its run by now."""
_END_S = 5.0


@dataclass(frozen=True)
class RankView:
    """One rank of this host, as the watchdog sees it now."""

    rank: int
    pid: int
    step: int


class Telemetry:
    """Samples of the host that this process runs on; `update` says what is known of its ranks."""

    def __init__(
        self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), spool: Spool | None = None
    ) -> None:
        """`spool`: hand rows to the host's collector there."""
        self._ranks: tuple[RankView, ...] = ()
        self._target: Target | None = None
        self._processes = JobProcesses(proc)
        self._kernel_log = KernelLog(processes=self._processes)
        self._lock = threading.Lock()  # of the sampler's rows
        self._stopped = threading.Event()
        self._drivers = _drivers(proc, sys)
        self._sampler = Sampler(self._sources(proc, sys))
        self._publisher = Publisher(spool)
        self._threads = [
            threading.Thread(target=run, name=f"telemetry {name}", daemon=True)
            for name, run in (("sampler", self._sample), ("publisher", self._publish))
        ]

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def update(self, ranks: Sequence[RankView], target: Target | None) -> None:
        """What the watchdog sees now; `target` None: no rank knows its run yet."""
        self._ranks = tuple(ranks)
        self._processes.add(view.pid for view in ranks)
        self._target = target or self._target

    def stop(self) -> None:
        """End both threads and write what is left; waits a few seconds for a hung disk."""
        self._stopped.set()
        for driver in self._drivers:
            driver.stop()
        for thread in self._threads:
            thread.join(_END_S)

    def _sources(self, proc: Path, sys: Path) -> list[Source]:
        scope = scope_of_network(proc, sys)
        return [
            Cpu(proc),
            Memory(proc),
            VirtualMemory(proc),
            Pressure(proc),
            Tcp(proc, scope),
            Disks(proc, sys),
            Cgroup(self._any_pid, proc, sys / "fs/cgroup"),
            Processes(self._pids, proc),
            Network(proc, sys, scope),
            self._kernel_log,
            *self._drivers,
        ]

    def _any_pid(self) -> int:
        ranks = self._ranks
        return ranks[0].pid if ranks else os.getpid()

    def _pids(self) -> list[tuple[int, int]]:
        return [(view.rank, view.pid) for view in self._ranks if view.rank >= 0]

    def _sample(self) -> None:
        while not self._stopped.wait(EVERY_S - time.monotonic() % EVERY_S):
            views = self._ranks
            if not views:  # before the first rank and after the last
                continue
            steps = {view.rank: view.step for view in views}
            this = Round(time.monotonic(), now(), max(steps.values(), default=-1), steps)
            with self._lock:
                self._sampler.sample(this)

    def _publish(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopped.wait(LOOK_S if self._target is None else HOST_EVERY_S)
            if is_last:
                self._threads[0].join(_END_S)
            target = self._target
            if target is not None:
                with suppress(OSError):  # the folder cannot be written, perhaps later
                    self._write(target, is_last)

    def _write(self, target: Target, is_last: bool) -> None:
        with self._lock:
            rows, lines = self._sampler.rows.take(), self._kernel_log.take()
        self._publisher.write(target, rows, lines, time.monotonic(), is_last)


def _drivers(proc: Path, sys: Path) -> list[Background]:
    """Sources that may block in a driver. Libraries of GPUs are imported where there are any."""

    def nvidia() -> Source:
        from trace_hooks.telemetry.nvidia import Nvidia

        return Nvidia(proc)

    def amd() -> Source:
        from trace_hooks.telemetry.amd import Amd

        return Amd(sys)

    return [
        Background("ethtool", lambda: Ethtool(sys)),
        Background("infiniband", lambda: Infiniband(sys)),
        Background("nvidia", nvidia),
        Background("amd", amd),
    ]
