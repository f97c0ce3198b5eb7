"""Ranks that do what a test of their launcher needs: `main([WHAT, FOLDER, NUM_RANKS])`.

Each writes FOLDER/RANK when it has begun.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from sample_traces.jobs import launch as launcher

GRACE_S = 0.5


def train(options: argparse.Namespace, listener: socket.socket) -> None:
    """One rank."""
    rank = int(os.environ["RANK"])
    atexit.register((options.folder / f"{rank}.exit").touch)
    if options.what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (options.folder / str(rank)).write_text(str(os.getpid()))
    if options.what == "reduce":
        launcher.init_process_group(torch.device("cpu"), listener)
        total = torch.tensor([rank + 1.0])
        dist.all_reduce(total)
        found = [dist.get_rank(), dist.get_world_size(), dist.get_backend(), total.item()]
        (options.folder / str(rank)).write_text(json.dumps(found))
        dist.destroy_process_group()
        return
    while not all((options.folder / str(other)).exists() for other in range(options.ranks)):
        time.sleep(0.01)
    if options.what == "fail" and rank == 1:
        raise ValueError("what went wrong")
    time.sleep(600)


def main(arguments: Sequence[str]) -> int:
    """Start the ranks."""
    what, folder, ranks = arguments
    launcher.GRACE_S = GRACE_S
    if what == "forking":
        os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
    options = argparse.Namespace(what=what, folder=Path(folder), ranks=int(ranks))
    return launcher.launch(train, options, options.ranks)
