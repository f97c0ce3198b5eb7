"""A small data-parallel job over gloo that gets stuck in one way (benchmarks/stuck.py).

torchrun --nproc-per-node 4 benchmarks/stuck_job.py CASE FOLDER

From step HANGS_AT on, one rank does what CASE says; it first writes the time into FOLDER/onset.
"""

from __future__ import annotations

import ctypes
import datetime
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import trace_hooks

HANGS_AT, STEPS = 30, 400
CULPRIT = 2
FOREVER_S = 600.0


class Endless(Dataset[torch.Tensor]):
    """Items whose worker stops after some, where asked to."""

    def __init__(self, stops: bool) -> None:
        self.stops = stops

    def __len__(self) -> int:
        return STEPS * 4

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.stops and index >= HANGS_AT:
            time.sleep(FOREVER_S)
        return torch.ones(8)


def spin() -> None:
    while True:
        sum(range(1000))


def hold_the_gil() -> None:
    """Lock a mutex twice in a C call that keeps the GIL."""
    mutex = ctypes.create_string_buffer(64)
    library = ctypes.PyDLL(None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def sleep() -> None:
    time.sleep(FOREVER_S)


def restore(folder: Path) -> None:
    torch.load(folder / "fifo")  # noqa: TID251  # a pipe that nobody writes into


def save(folder: Path) -> None:
    torch.save({"weights": torch.ones(4)}, folder / "fifo")


def send_signal(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def fail() -> None:
    raise ValueError("bad batch 7")


class Job:
    """One rank of the job."""

    def __init__(self, case: str, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.rank = dist.get_rank()
        self.culprit = 0 if case == "rank-0" else CULPRIT
        self.is_culprit = self.rank == self.culprit
        self.halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        self.middle = dist.new_group([1, 2])
        self.ones = torch.ones(1000)
        stops = case == "loader" and self.is_culprit
        self.batches = iter(DataLoader(Endless(stops), num_workers=1, prefetch_factor=2))

    def step(self, number: int) -> None:
        """One step; from HANGS_AT on it goes wrong."""
        time.sleep(0.05)
        is_late = number == HANGS_AT
        if self.case == "loader" or number < 2:
            self._note(self.case == "loader" and is_late)
            next(self.batches)
        dist.all_reduce(self.ones, group=self.halves[self.rank // 2])
        if not (is_late and self._goes_wrong()):
            dist.all_reduce(self.ones)

    def _note(self, is_onset: bool) -> None:
        if is_onset and self.is_culprit:
            (self.folder / "onset.tmp").write_text(str(time.time_ns()))
            (self.folder / "onset.tmp").rename(self.folder / "onset")

    def _goes_wrong(self) -> bool:
        """What the case does in this step; True where it replaces the last all-reduce."""
        self._note(True)
        alone = {
            "sleep": sleep,
            "rank-0": sleep,
            "loop": spin,
            "gil": hold_the_gil,
            "stopped": send_signal(signal.SIGSTOP),
            "killed": send_signal(signal.SIGKILL),
            "exception": fail,
            "restore": lambda: restore(self.folder),
            "save": lambda: save(self.folder),
        }
        if self.case in alone and self.is_culprit:
            alone[self.case]()
        return self._together()

    def _together(self) -> bool:
        """Cases in which all ranks do something, and the culprit something else."""
        ones, others = self.ones, [rank for rank in range(4) if rank != CULPRIT]
        doubles = torch.ones(500, dtype=torch.float64)
        wrong: dict[str, Callable[[], Any]] = {
            "operation": lambda: dist.broadcast(ones, 0),
            "smaller": lambda: dist.all_reduce(torch.ones(500)),
            "larger": lambda: dist.all_reduce(torch.ones(2000)),
            "dtype": lambda: dist.all_reduce(doubles),
        }
        if self.case in wrong:
            wrong[self.case]() if self.is_culprit else dist.all_reduce(ones)
            return True
        missed: dict[str, Callable[[], Any]] = {
            "barrier": dist.barrier,
            "all-to-all": lambda: dist.all_to_all_single(torch.empty(1000), ones),
            "new-group": lambda: dist.new_group(list(range(4))),
            "send": lambda: dist.recv(ones, src=CULPRIT) if self.rank == others[-1] else None,
        }
        if self.case in missed:
            sleep() if self.is_culprit else missed[self.case]()
            return False
        if self.case == "order" and self.rank in (1, 2):
            order = [self.middle, None] if self.rank == 1 else [None, self.middle]
            for group in order:
                dist.all_reduce(ones, group=group)
            return True
        return self._slowly()

    def _slowly(self) -> bool:
        """Controls: what takes long and is not stuck."""
        if self.case == "evaluation" and self.rank == 0:
            until_s = time.monotonic() + 12.0
            while time.monotonic() < until_s:
                evaluate()
        if self.case == "checkpoint" and self.rank == 0:
            for part in range(60):
                torch.save(torch.ones(500_000), self.folder / f"part{part % 4}")
                time.sleep(0.2)
        return False


def evaluate() -> torch.Tensor:
    return torch.ones(200, 200) @ torch.ones(200, 200)


def main() -> None:
    case, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    tracer = trace_hooks.start(run=case)
    job = Job(case, folder)
    for number in range(STEPS):
        with tracer.step(number):
            job.step(number)


if __name__ == "__main__":
    main()
