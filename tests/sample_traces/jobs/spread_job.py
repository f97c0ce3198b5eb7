"""A small GPT over 2 data-parallel by 2 tensor-parallel ranks: `main([FILE])`.

Rank 0 writes for each way of spreading it: gradient norm, mean loss, norm of scaled gradients.
"""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import loss_parallel

from sample_traces.jobs.launch import init_process_group, launch
from sample_traces.jobs.model import GPTSizes, Sequences, build_stage, token_loss
from sample_traces.jobs.parallel import (
    reduce_norm_and_loss,
    replicate,
    scale_gradients,
    spread,
)

DP, TP, FACTOR = 2, 2, 0.25
SIZES = GPTSizes(num_layers=2, width=16, num_heads=2, vocabulary=32, seq_len=8)
WAYS = ((False, False), (True, False), (True, True))
"""Whether sequences, and whether the head's vocabulary are split, too."""


def batch(dp: int) -> torch.Tensor:
    """Tokens (B, T + 1) of a replica."""
    data = Sequences(SIZES, dp, 3, 1, [])
    return torch.stack([data[item] for item in range(3)])


def train(options: argparse.Namespace, listener: socket.socket) -> None:
    """One rank."""
    init_process_group(torch.device("cpu"), listener)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (1, DP, TP), mesh_dim_names=("pp", "dp", "tp"))
    tokens = batch(mesh.get_local_rank("dp"))
    found = []
    for sequence_parallel, vocabulary_parallel in WAYS:
        stage = build_stage(SIZES, 0, 1, seed=1)
        spread(stage, mesh, sequence_parallel, vocabulary_parallel)
        with loss_parallel() if vocabulary_parallel else nullcontext():
            loss = token_loss(stage(tokens[:, :-1]), tokens[:, 1:])
            loss.backward()
        norm, mean = reduce_norm_and_loss(stage.parameters(), loss.detach(), mesh)
        scale_gradients(stage.parameters(), torch.tensor(FACTOR))
        scaled, _ = reduce_norm_and_loss(stage.parameters(), loss.detach(), mesh)
        found.append([norm.item(), mean.item(), scaled.item()])
    found.append(_replicated(tokens))
    if dist.get_rank() == 0:
        options.file.write_text(json.dumps(found))
    dist.destroy_process_group()


def _replicated(tokens: torch.Tensor) -> list[float]:
    """The same with DDP over all ranks, each pair of which has one batch."""
    mesh = init_device_mesh("cpu", (1, DP * TP, 1), mesh_dim_names=("pp", "dp", "tp"))
    stage = build_stage(SIZES, 0, 1, seed=1)
    module = replicate(stage, mesh)
    loss = token_loss(module(tokens[:, :-1]), tokens[:, 1:])
    loss.backward()
    norm, mean = reduce_norm_and_loss(stage.parameters(), loss.detach(), mesh)
    scale_gradients(stage.parameters(), torch.tensor(FACTOR))
    scaled, _ = reduce_norm_and_loss(stage.parameters(), loss.detach(), mesh)
    return [norm.item(), mean.item(), scaled.item()]


def main(arguments: Sequence[str]) -> int:
    """Start the ranks."""
    [file] = arguments
    return launch(train, argparse.Namespace(file=Path(file)), DP * TP)
