"""Faults of a rank's host: other work on its core, slow storage, memory that is touched first."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import time

import torch

PIECE_MB = 64
_PERIOD_S = 0.02

_BURN = """
import os, sys, time
parent, share, core = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
os.sched_setaffinity(0, {core})
while os.getppid() == parent:
    until_s = time.perf_counter() + share * PERIOD
    while time.perf_counter() < until_s:
        pass
    time.sleep((1 - share) * PERIOD)
""".replace("PERIOD", str(_PERIOD_S))


class Burner:
    """Binds the calling thread to one core (Linux) and starts processes that want it, too.

    They end with `stop`, and where this process ends.
    """

    def __init__(self, rank: int) -> None:
        self.cores = os.sched_getaffinity(0)
        self.core = sorted(self.cores)[rank % len(self.cores)]
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, share: float) -> None:
        """Processes that want `share` of the core together; more than 1: several."""
        os.sched_setaffinity(0, {self.core})
        number = math.ceil(share)
        words = [str(os.getpid()), str(share / number), str(self.core)]
        command = [sys.executable, "-S", "-E", "-c", _BURN, *words]
        self.processes += [subprocess.Popen(command) for _ in range(number)]

    def stop(self) -> None:
        """End them; the thread may use all its cores again."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()
        os.sched_setaffinity(0, self.cores)


class SlowFile(io.BytesIO):
    """A file on storage that first takes `seconds` to answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.left_s = seconds

    def write(self, data: object) -> int:
        """Wait once, then write to memory."""
        wait_s, self.left_s = self.left_s, 0.0
        time.sleep(wait_s)
        return super().write(data)  # type: ignore[arg-type]


def touch_memory(mb: float) -> None:
    """Map memory, touch every page of it and give it back: the kernel clears each page first.

    Piece by piece, so that large amounts fit; smaller pieces would stay in the allocator.
    """
    while mb > 0:
        torch.zeros(int(min(mb, PIECE_MB) * 2**20) // 4).fill_(1.0)
        mb -= PIECE_MB
