"""A small job over gloo that gets stuck in one way (benchmarks/stuck.py).

torchrun --nproc-per-node 4 benchmarks/stuck_job.py CASE FOLDER

4 ranks: 2 stages x 2 replicas; 8 ranks: 2 stages x 2 replicas x 2 tensor-parallel ranks. At step
HANGS_AT one rank does what CASE says; it first writes the time into FOLDER/onset. The slow cases
run until FOLDER/stop exists.
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
FOREVER_S = 600.0
SLOW_S = 12.0
CULPRITS = {4: 2, 8: 5}
"""By the number of ranks; in the last stage, so that it sends gradients."""


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


