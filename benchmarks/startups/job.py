"""A small data-parallel job over gloo, a part of whose start-up can be slow.

torchrun --nproc-per-node 4 benchmarks/startups/job.py PLANT RANK SECONDS FOLDER [STEPS]

PLANT: none, import (before the hooks start), late-import (after), fifo (the checkpoint comes
through a pipe), disk (torch.load of a slow file), group (inside new_group), groups (many of them,
on every rank), model, data (the first batch), or own (a function that nothing knows). FOLDER has
checkpoint.pt, which every rank reads. With a checkpoint of its own in FOLDER the job continues from
that, and it saves one every ten steps; KILL_AT in the environment kills rank RANK after that step.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PLANT, SLOW_RANK, SECONDS = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
FOLDER, STEPS = Path(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else 12
RANK = int(os.environ["RANK"])
MANY_GROUPS = 400
STEP_S, SAVE_EVERY = 0.15, 10


def is_slow(plant: str) -> bool:
    """Whether this rank is the one where this part of the start-up is slow."""
    return plant == PLANT and RANK == SLOW_RANK


def import_library(plant: str) -> None:
    """Import a package that takes its time on the slow rank, as from a slow file system."""
    if is_slow(plant):
        package = FOLDER / "slow_library.py"
        if not package.exists():
            package.write_text(f"import time\n\ntime.sleep({SECONDS})\n", encoding="utf-8")
        sys.path.insert(0, str(FOLDER))
        import slow_library  # type: ignore[import-not-found]  # noqa: F401


import_library("import")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import trace_hooks as th  # noqa: E402


class Samples(Dataset[torch.Tensor]):
    """Random ones."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 0 and is_slow("data"):
            time.sleep(SECONDS)
        return torch.ones(16)


class Slow(nn.Linear):
    """A layer that is slow to make on the slow rank."""

    def reset_parameters(self) -> None:
        """Takes its time on the slow rank."""
        if is_slow("model"):
            time.sleep(SECONDS / 2)
        super().reset_parameters()


class SlowFile(io.FileIO):
    """A file on a slow disk."""

    is_slow = True

    def readinto(self, buffer: Any) -> int | None:
        """The first read takes its time."""
        if self.is_slow:
            self.is_slow = False
            time.sleep(SECONDS)
        return super().readinto(buffer)


def read_checkpoint() -> dict[str, Any]:
    """From a file, or through a pipe."""
    path = FOLDER / "checkpoint.pt"
    if PLANT == "fifo":
        pipe = FOLDER / f"pipe-{RANK}"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        pause_s = SECONDS if is_slow("fifo") else 0
        feed = f"(head -c 1000 '{path}'; sleep {pause_s}; tail -c +1001 '{path}') > '{pipe}'"
        with subprocess.Popen(["sh", "-c", feed]), pipe.open("rb") as file:
            return dict(torch.load(io.BytesIO(file.read())))  # noqa: TID251 - weights only
    opened = SlowFile(path) if is_slow("disk") else path
    return dict(torch.load(opened))  # noqa: TID251 - weights only, made by this benchmark


def make_groups() -> None:
    """A group of neighbours; many of them; on the slow rank with something slow inside."""
    if is_slow("group"):
        module = dist.distributed_c10d
        original = module._new_process_group_helper

        def slow_helper(*args: Any, **kwargs: Any) -> Any:
            time.sleep(SECONDS)
            return original(*args, **kwargs)

        module._new_process_group_helper = slow_helper
    for _ in range(MANY_GROUPS if PLANT == "groups" else 1):
        dist.new_group(range(dist.get_world_size()))


def index_corpus() -> None:
    """Something that a job does before it trains."""
    if is_slow("own"):
        time.sleep(SECONDS)


def first_step() -> int:
    """The step to go on from, as the newest of this job's own checkpoints has it."""
    own = FOLDER / "own.pt"
    return int(torch.load(own)["step"]) if own.exists() else 0  # noqa: TID251 - weights only


def main() -> None:
    tracer = th.start()
    import_library("late-import")
    dist.init_process_group("gloo")
    make_groups()
    model = nn.Sequential(Slow(16, 16), Slow(16, 1))
    model.load_state_dict(read_checkpoint())
    begin = first_step()
    index_corpus()
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    batches = iter(DataLoader(Samples(), batch_size=4))
    for step in range(begin, begin + STEPS):
        with tracer.step(step):
            loss = parallel(next(batches)).sum()
            loss.backward()
            time.sleep(STEP_S)  # what an accelerator would compute
            optimizer.step()
            optimizer.zero_grad()
            if step % SAVE_EVERY == SAVE_EVERY - 1 and RANK == 0:
                torch.save({"step": step + 1}, FOLDER / "own.pt")
        if str(step) == os.environ.get("KILL_AT") and RANK == SLOW_RANK:
            os.kill(os.getpid(), signal.SIGKILL)
    tracer.stop()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
