"""PyTorch alone: torchrun --nproc-per-node N plain_torch.py ddp | fsdp2 | hsdp | pp | tp."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.frameworks.jobs import report
from sample_traces.jobs.model import GPTSizes, Sequences, Stage, build_stage, token_loss
from sample_traces.jobs.parallel import spread

SIZES = GPTSizes(num_layers=4, width=256, seq_len=128)
BATCH, MICROBATCHES = 4, 4

Train = Callable[[torch.Tensor], torch.Tensor | None]
"""Forward and backward of a batch; the loss, on ranks that have it."""


def made(kind: str) -> tuple[nn.Module, Train]:
    """The model of this rank, parallel as `kind` says, and forward with backward of a batch."""
    if kind == "pp":
        return pipeline()
    stage = build_stage(SIZES, 0, 1, seed=1).to(report.DEVICE)
    model: nn.Module = stage
    if kind == "ddp":
        model = DistributedDataParallel(stage)
    elif kind == "tp":
        mesh = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("dp", "tp"))
        spread(stage, mesh, sequence_parallel=False)
    else:
        shape = (2, dist.get_world_size() // 2) if kind == "hsdp" else (dist.get_world_size(),)
        names = ("dp_replicate", "dp_shard")[-len(shape) :]
        mesh = init_device_mesh(report.DEVICE, shape, mesh_dim_names=names)
        for block in stage.blocks.values():
            fully_shard(block, mesh=mesh)
        fully_shard(stage, mesh=mesh)

    def train(batch: torch.Tensor) -> torch.Tensor:
        loss = token_loss(model(batch[:, :-1]), batch[:, 1:])
        loss.backward()
        return loss

    return model, train


def pipeline() -> tuple[nn.Module, Train]:
    """A stage on each rank, under 1F1B; the loss is that of the last stage."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, size = dist.get_rank(), dist.get_world_size()
    model: Stage = build_stage(SIZES, rank, size, seed=1)
    stage = PipelineStage(model, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=token_loss)

    def train(batch: torch.Tensor) -> torch.Tensor | None:
        losses: list[torch.Tensor] = []
        own = (batch[:, :-1],) if rank == 0 else ()
        target = batch[:, 1:] if rank == size - 1 else None
        schedule.step(*own, target=target, losses=losses)
        return torch.stack(losses).mean() if losses else None

    return model, train


def main(kind: str) -> None:
    torch.set_num_threads(1)
    if report.WITH_LINES:
        import trace_hooks as th

        tracer = th.start()
    if report.DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if report.DEVICE == "cuda" else "gloo")
    model, train = made(kind)
    data = Sequences(SIZES, 1, BATCH * report.STEPS * dist.get_world_size(), BATCH, [])
    whole = kind in ("pp", "tp")  # each rank reads the same batches
    sampler = None if whole else DistributedSampler(data, shuffle=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = {}
    for step, batch in enumerate(DataLoader(data, BATCH, sampler=sampler)):
        if step == report.STEPS:
            break
        optimizer.zero_grad()
        loss = train(batch.to(report.DEVICE))
        optimizer.step()
        if loss is not None:
            losses[step] = float(loss)
            if report.WITH_LINES:
                tracer.log(loss=loss)
    report.write(dist.get_rank(), losses, model.parameters())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
