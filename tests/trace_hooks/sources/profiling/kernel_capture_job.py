"""One rank of a job that trains until it gets a stop, and prints its losses.

Usage: kernel_capture_job.py RANK WORLD_SIZE STORE_FILE STOP_FILE [STEPS]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import distributed
from torch.nn import functional

import trace_hooks as th
from tests.trace_hooks.tiny_models import VOCABULARY, TinyGPT

PAUSE_S = 0.05


def train(rank: int, stop: Path, most: int) -> list[float]:
    """Losses of all steps; every rank ends with the step in which rank 0 finds the stop file."""
    torch.manual_seed(0)
    model = TinyGPT(blocks=2)
    tracer = th.start(run="job", model=model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    losses = []
    for _ in range(most):
        with tracer.step():
            tokens = torch.randint(VOCABULARY, (2, 12))
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        time.sleep(PAUSE_S)
        ends = torch.tensor(float(stop.exists()))
        distributed.broadcast(ends, 0)
        if ends:
            break
    tracer.stop()
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    rank, world_size, store, stop = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    distributed.init_process_group(
        "gloo", store=distributed.FileStore(store, world_size), rank=rank, world_size=world_size
    )
    print(json.dumps(train(rank, Path(stop), int(sys.argv[5]) if len(sys.argv) > 5 else 10_000)))
    distributed.destroy_process_group()
