"""Four identical replicas of a small model (DDP, gloo), until one bit of one of them flips.

python -m tests.sample_traces.bit_flip_job RUNS RANK, or -1 for none.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import trace_hooks as th
from sample_traces.jobs.launch import init_process_group, launch
from sample_traces.jobs.model import GPTSizes, Sequences, build_stage, token_loss

WORLD, STEPS, FLIPPED_AFTER, BIT = 4, 10, 5, 12
SIZES = GPTSizes(num_layers=2, width=16, num_heads=2, vocabulary=32, seq_len=8)


def train(options: argparse.Namespace, listener: socket.socket) -> None:
    """One replica."""
    init_process_group(torch.device("cpu"), listener)
    torch.set_num_threads(1)
    rank = dist.get_rank()
    model = build_stage(SIZES, 0, 1, seed=1)
    tracer = th.start(options.runs, run="job", layout={"dp": WORLD}, statistics=1)
    tracer.watch(model, stage=0)
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    data = Sequences(SIZES, rank, STEPS, 1, [])
    for step in range(STEPS):
        with tracer.step(step):
            tokens = data[step][None]
            loss = token_loss(replica(tokens[:, :-1]), tokens[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.2)  # what comes too quickly to be written is dropped
        if step == FLIPPED_AFTER and rank == options.rank:
            flip(model.blocks["1"].mlp.up.weight)
    tracer.stop()
    dist.destroy_process_group()


@torch.no_grad()
def flip(weight: torch.Tensor) -> None:
    """Change one bit of one value."""
    weight.view(torch.int32)[3, 5] ^= 1 << BIT


def main(arguments: Sequence[str]) -> int:
    """Start the ranks."""
    runs, rank = arguments
    return launch(train, argparse.Namespace(runs=runs, rank=int(rank)), WORLD)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
