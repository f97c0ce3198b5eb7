"""A small job over gloo that gets stuck in one way (benchmarks/stuck).

torchrun --nproc-per-node 4 benchmarks/stuck/job.py CASE FOLDER

4 ranks: 2 stages x 2 replicas; 8 ranks: 2 stages x 2 replicas x 2 tensor-parallel ranks. At step
HANGS_AT one rank does what CASE says; it first writes the time into FOLDER/onset. The slow
cases are long by design, not stuck, and run until they are killed.
"""

from __future__ import annotations

import ctypes
import datetime
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, Dataset

import trace_hooks

HANGS_AT, STEPS = 30, 400
FOREVER_S = 600.0
SLOW_S = 12.0
CULPRITS = {4: 2, 8: 5}
"""By the number of ranks; in the last stage, so that it sends gradients."""


class Endless(Dataset[torch.Tensor]):
    """Items whose worker stops or dies after some, where asked to."""

    def __init__(self, stops: bool, dies_into: Path | None) -> None:
        self.stops, self.dies_into = stops, dies_into

    def __len__(self) -> int:
        return STEPS * 4

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.stops and index >= HANGS_AT:
            time.sleep(FOREVER_S)
        if self.dies_into is not None and index >= HANGS_AT:
            note_onset(self.dies_into)
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(8)


def note_onset(folder: Path) -> None:
    """When it begins, for who measures from there."""
    (folder / "onset.tmp").write_text(str(time.time_ns()))
    (folder / "onset.tmp").rename(folder / "onset")


def dump_when_asked(folder: Path, rank: int) -> None:
    """Write this rank's Flight Recorder into FOLDER/dumps once FOLDER/dump exists."""
    while not (folder / "dump").exists():
        time.sleep(0.2)
    dump = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
    (folder / "dumps" / f"dump_{rank}.tmp").write_bytes(dump)
    (folder / "dumps" / f"dump_{rank}.tmp").rename(folder / "dumps" / f"dump_{rank}")


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


def open_checkpoint(folder: Path) -> None:
    """Open the file without any library's help."""
    with (folder / "fifo").open("wb") as file:
        file.write(bytes(1000))


def fill_memory(folder: Path) -> None:
    """Allocate more than the memory cgroup allows that this process moves to (watch.py made it)."""
    group = Path((folder / "cgroup").read_text())
    (group / "cgroup.procs").write_text(str(os.getpid()))
    held = []
    while True:
        held.append(bytearray(50_000_000))


def send_signal(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def fail() -> None:
    raise ValueError("bad batch 7")


class Job:
    """One rank of the job."""

    def __init__(self, case: str, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.culprit = 0 if case == "rank-0" else CULPRITS[self.world_size]
        self.is_culprit = self.rank == self.culprit
        names = ("pp", "dp", "tp") if self.world_size == 8 else ("pp", "dp")
        mesh = init_device_mesh("cpu", (2,) * len(names), mesh_dim_names=names)
        self.dp = mesh.get_group("dp")
        self.tp = mesh.get_group("tp") if "tp" in names else None
        self.stage, half = self.rank // (self.world_size // 2), self.world_size // 2
        self.neighbour = self.rank + half if self.stage == 0 else self.rank - half
        self.ones = torch.ones(1000)
        stops = case == "loader" and self.is_culprit
        dies_into = folder if case == "loader-dead" and self.is_culprit else None
        items = Endless(stops, dies_into)
        self.batches = iter(DataLoader(items, num_workers=1, prefetch_factor=2))

    def step(self, number: int) -> None:
        """One step; at HANGS_AT it goes wrong."""
        time.sleep(0.03)
        is_wrong = number == HANGS_AT
        if self.case.startswith("loader") or number < 2:
            self._note(self.case == "loader" and is_wrong)
            next(self.batches)
        self._forward_and_backward(is_wrong and self.case == "send")
        if is_wrong and self.case not in SLOW:
            self._goes_wrong_alone()
        if not (is_wrong and self._goes_wrong_together()):
            dist.all_reduce(self.ones, group=self.dp)
            dist.all_reduce(self.ones)

    def _forward_and_backward(self, sends_nothing: bool) -> None:
        """Activations to the last stage, gradients back; all-reduces of tensor parallelism."""
        if self.stage == 1:
            dist.recv(self.ones, self.neighbour)
        if self.tp is not None:
            dist.all_reduce(self.ones, group=self.tp)
        if self.stage == 0:
            dist.send(self.ones, self.neighbour)
            dist.recv(self.ones, self.neighbour)
            return
        if sends_nothing and self.is_culprit:
            self._note(True)
            sleep()
        dist.send(self.ones, self.neighbour)

    def _note(self, is_onset: bool) -> None:
        if is_onset and self.is_culprit:
            note_onset(self.folder)

    def _goes_wrong_alone(self) -> None:
        """The culprit does something by itself, the others go on to their all-reduces."""
        self._note(True)
        alone: dict[str, Callable[[], None]] = {
            "sleep": sleep,
            "rank-0": sleep,
            "loop": spin,
            "gil": hold_the_gil,
            "stopped": send_signal(signal.SIGSTOP),
            "killed": send_signal(signal.SIGKILL),
            "exception": fail,
            "memory": lambda: fill_memory(self.folder),
            "network": lambda: (self.folder / "network-stalls").touch(),
            "restore": lambda: restore(self.folder),
            "save": lambda: save(self.folder),
            "open": lambda: open_checkpoint(self.folder),
        }
        if self.case in alone and self.is_culprit:
            alone[self.case]()

    def _goes_wrong_together(self) -> bool:
        """All ranks do something, the culprit something else; True: instead of the all-reduces."""
        ones = self.ones
        wrong: dict[str, Callable[[], Any]] = {
            "operation": lambda: dist.broadcast(ones, 0),
            "smaller": lambda: dist.all_reduce(torch.ones(500)),
            "larger": lambda: dist.all_reduce(torch.ones(2000)),
            "dtype": lambda: dist.all_reduce(torch.ones(500, dtype=torch.float64)),
        }
        if self.case in wrong:
            wrong[self.case]() if self.is_culprit else dist.all_reduce(ones)
            return True
        missed: dict[str, Callable[[], Any]] = {
            "barrier": dist.barrier,
            "all-to-all": lambda: dist.all_to_all_single(
                torch.empty(self.world_size), torch.ones(self.world_size)
            ),
            "new-group": lambda: dist.new_group(list(range(self.world_size))),
        }
        if self.case in missed:
            sleep() if self.is_culprit else missed[self.case]()
            return False
        if self.case == "order":
            groups = [None, self.dp] if self.is_culprit else [self.dp, None]
            for group in groups:
                dist.all_reduce(ones, group=group)
            return True
        return False


class Slow:
    """What takes long and is not stuck; from HANGS_AT on, again and again."""

    def __init__(self, case: str, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.is_one = dist.get_rank() == (0 if case in ("evaluation", "checkpoint") else 1)

    def after(self, number: int) -> None:
        """What one rank does after a step, while the others go on to the next."""
        if number < HANGS_AT or (number - HANGS_AT) % 40 or not self.is_one:
            return
        if number == HANGS_AT:
            note_onset(self.folder)
        SLOW[self.case](self.folder, number)


def evaluate(folder: Path, number: int) -> None:
    """Compute on one rank for SLOW_S."""
    until_s = time.monotonic() + SLOW_S
    while time.monotonic() < until_s:
        torch.ones(200, 200) @ torch.ones(200, 200)


def checkpoint(folder: Path, number: int) -> None:
    """Write a checkpoint that moves, slowly."""
    for part in range(int(SLOW_S)):
        torch.save(torch.ones(500_000), folder / f"part{part % 4}")
        time.sleep(1.0)


def compile_anew(folder: Path, number: int) -> None:
    """Have a model of another size compiled, into a cache of its own."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / f"inductor{number}")
    torch.compiler.reset()
    layers = [torch.nn.Linear(8, 8), torch.nn.GELU()] * (4 + number // 40)
    torch.compile(torch.nn.Sequential(*layers))(torch.ones(4, 8))


def slow_input(folder: Path, number: int) -> None:
    """Wait for input that comes late, longer each time."""
    time.sleep(5.0 + min(number / 40, SLOW_S))


SLOW: dict[str, Callable[[Path, int], None]] = {
    "evaluation": evaluate,
    "checkpoint": checkpoint,
    "compilation": compile_anew,
    "input": slow_input,
}


def main() -> None:
    case, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
    tracer = trace_hooks.start(run=case)
    if (folder / "dumps").exists():
        threading.Thread(
            target=dump_when_asked, args=(folder, dist.get_rank()), daemon=True
        ).start()
    job = Job(case, folder)
    slow = Slow(case, folder) if case in SLOW else None
    number = 0
    while number < STEPS or slow is not None:
        with tracer.step(number):
            job.step(number)
        if slow is not None:
            slow.after(number)
        number += 1


if __name__ == "__main__":
    main()
