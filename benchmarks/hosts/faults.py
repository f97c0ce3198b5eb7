"""Faults of one machine, made from outside of the job, and what a right diagnosis says of each."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

_COMPUTE = ("slow_worker", "launch_skew", "host_contention", "jit_spikes", "faulty_machine")
_NETWORK = ("slow_host", "slow_link", "slow_node_link", "slow_dp_network", "faulty_machine")


@dataclass(frozen=True)
class Kind:
    """What fits a fault: kinds of findings that name the host, or the rank where one was hit, and
    words of which one has to stand in their cause. `of_job`: kinds that fit as well and name
    nobody, where the machines share what was hit.
    """

    kinds: tuple[str, ...]
    words: tuple[str, ...]
    doses: tuple[float, ...]
    of_rank: bool = False
    of_job: tuple[str, ...] = ()


_CORES = ("wait for core", "waits for a core", "kept from")
_DISK = ("wait for a disk", "waits for a disk", "saving checkpoints")
KINDS = {
    "burner": Kind(_COMPUTE, _CORES, (3, 6)),
    "quota": Kind(_COMPUTE, ("CPU quota",), (0.3, 0.15)),
    "stop": Kind((*_COMPUTE, "stopped_process"), ("stopped",), (0.3, 0.6), of_rank=True),
    "memory": Kind((*_COMPUTE, "data_loader"), ("memory", *_CORES), (3, 6)),
    "fsync": Kind(
        (*_COMPUTE, "slow_checkpoint"),
        (*_DISK, *_CORES),
        (3, 6),
        of_job=("slow_checkpoint", "step_regression"),
    ),
    "network": Kind(_NETWORK, ("",), (100, 40)),
}
"""Doses: processes; cores; share of the time; processes; processes; Mbit/s. Processes that fill a
host's memory or write to the disk want its cores, too: either cause is right."""

PERIOD_S = 0.3, 2.0
"""From one stop of a rank to the next; each pause has a length of its own."""

_SPIN = "while True: pass"
_SYNC = """
import os, sys
data = os.urandom(1 << 22)
while True:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for _ in range(64):
        os.write(file, data)
    os.fsync(file)
    os.close(file)
"""
_READ = """
import os, sys
while True:
    with open(sys.argv[1], "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
"""
_READ_MB = 512
_ROOM_BYTES = 64 << 20


@dataclass
class Fault:
    """A fault of one host, that can begin and end. `host`: as launch.py writes it."""

    name: str
    dose: float
    switch: int
    host: dict[str, Any]
    scratch: Path
    _undo: list[Callable[[], object]] = field(default_factory=list)

    @property
    def rank(self) -> int:
        """The rank that is hit, where it is one: the host's last."""
        return max(map(int, self.host["ranks"]))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that may be named."""
        own = tuple(sorted(map(int, self.host["ranks"])))
        return (self.rank,) if KINDS[self.name].of_rank else own

    def begin(self) -> None:
        """From now on; raises OSError, CalledProcessError where it can't be made here."""
        getattr(self, f"_{self.name}")()

    def end(self) -> None:
        """Undo it."""
        for undo in reversed(self._undo):
            with suppress(ProcessLookupError):
                undo()
        self._undo.clear()

    def _burner(self) -> None:
        for _ in range(int(self.dose)):
            self._process(_SPIN)

    def _quota(self) -> None:
        group = Path(self.host["groups"]["cpu"])
        period_us = int((group / "cpu.cfs_period_us").read_text())
        quota = group / "cpu.cfs_quota_us"
        quota.write_text(str(int(self.dose * period_us)))
        self._undo.append(lambda: quota.write_text("-1"))

    def _stop(self) -> None:
        pid, over = self.host["ranks"][str(self.rank)], threading.Event()
        drawn = random.Random(pid)

        def stop_and_go() -> None:
            with suppress(ProcessLookupError):
                while not over.wait((1 - self.dose) * (period_s := drawn.uniform(*PERIOD_S))):
                    os.kill(pid, signal.SIGSTOP)
                    over.wait(self.dose * period_s)
                    os.kill(pid, signal.SIGCONT)

        thread = threading.Thread(target=stop_and_go)
        thread.start()
        self._undo += [thread.join, over.set]

    def _fsync(self) -> None:
        for number in range(int(self.dose)):
            self._process(_SYNC, str(self.scratch / f"synced-{number}"))

    def _memory(self) -> None:
        """Little more than it has now, and processes that fill it with files they read."""
        group = Path(self.host["groups"]["memory"])
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        limit, before = (
            group / "memory.limit_in_bytes",
            (group / "memory.limit_in_bytes").read_text(),
        )
        file = self.scratch / "much"
        with file.open("wb") as out:
            for _ in range(_READ_MB):
                out.write(os.urandom(1 << 20))
            out.flush()
            os.fsync(out.fileno())
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # no cache of this process
        limit.write_text(str(int(stat["rss"]) + int(stat["mapped_file"]) + _ROOM_BYTES))
        self._undo.append(lambda: limit.write_text(before))
        for _ in range(int(self.dose)):
            self._process(_READ, str(file))

    def _network(self) -> None:
        """At most so many Mbit/s in both directions, with room for a second in its queues."""
        rate = [f"{self.dose:g}mbit", "burst", "10kb", "latency", "1s"]
        for pid, device in ((self.switch, self.host["port"]), (self.host["pid"], "eth0")):
            at = ["nsenter", "--net", "--target", str(pid), "tc", "qdisc"]
            begin = [*at, "replace", "dev", device, "root", "tbf", "rate", *rate]
            subprocess.run(begin, check=True)
            end = [*at, "del", "dev", device, "root"]
            self._undo.append(partial(subprocess.run, end, check=True))

    def _process(self, code: str, *words: str) -> None:
        process = subprocess.Popen([sys.executable, "-S", "-E", "-c", code, *words])
        for folder in self.host["groups"].values():
            (Path(folder) / "cgroup.procs").write_text(str(process.pid))
        self._undo += [process.wait, process.kill]
