"""One rank of two: trains with 1F1B, ZBV and FSDP2, without and with hooks.

Usage: pipeline_job.py RANK STORE_FILE OUTPUT_JSON
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleZBVZeroBubble
from torch.nn import functional

from tests.trace_hooks.tiny_models import VOCABULARY, Block, TinyGPT, Tracing, train

WIDTH, MICROBATCHES, STEPS, RANKS = 8, 4, 2, 2


def stage_module(index: int, num_stages: int) -> nn.Module:
    """One block per stage; the first also embeds, the last also has the head."""
    torch.manual_seed(index)
    parts: list[nn.Module] = [Block(WIDTH)]
    if index == 0:
        parts.insert(0, nn.Embedding(VOCABULARY, WIDTH))
    if index == num_stages - 1:
        parts.append(nn.Linear(WIDTH, VOCABULARY))
    return nn.Sequential(*parts)


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(output.flatten(0, 1), target.flatten())


def pipeline(kind: str, rank: int, watch: Callable[[nn.Module, int], None]) -> list[float]:
    """Trains and returns the micro-batches' losses; with ZBV the first rank has the last stage."""
    indices = [rank] if kind == "1F1B" else [rank, 2 * RANKS - 1 - rank]
    num_stages = RANKS * len(indices)
    modules = [stage_module(index, num_stages) for index in indices]
    for index, module in zip(indices, modules, strict=True):
        watch(module, index)
    stages = [
        PipelineStage(module, index, num_stages, torch.device("cpu"))
        for index, module in zip(indices, modules, strict=True)
    ]
    if kind == "1F1B":
        schedule = Schedule1F1B(stages[0], MICROBATCHES, loss_fn=loss_of)
    else:
        schedule = ScheduleZBVZeroBubble(stages, MICROBATCHES, loss_fn=loss_of)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in modules]
    has_last = num_stages - 1 in indices
    found: list[float] = []
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        tokens = torch.randint(0, VOCABULARY, (2 * MICROBATCHES, 5))
        losses: list[torch.Tensor] = []
        arguments = (tokens,) if 0 in indices else ()
        expectation = {"target": tokens, "losses": losses} if has_last else {}
        schedule.step(*arguments, **expectation)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        found += [loss.item() for loss in losses]
    return found


def sharded(order: str, watch: Callable[[nn.Module, int], None]) -> list[float]:
    """FSDP2 over both ranks, sharded before or after the hooks are in place."""
    torch.manual_seed(3)
    model = TinyGPT()
    mesh = init_device_mesh("cpu", (RANKS,))
    if order == "watch first":
        watch(model, 0)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    if order == "shard first":
        watch(model, 0)
    return train(model, STEPS)


def unwatched(module: nn.Module, stage: int) -> None:
    """Hooks are off."""


def main(rank: int, store: str, output: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        store=distributed.FileStore(store, RANKS),
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=60),
    )
    jobs: dict[str, Callable[[Callable[[nn.Module, int], None]], list[float]]] = {
        "1F1B": lambda watch: pipeline("1F1B", rank, watch),
        "ZBV": lambda watch: pipeline("ZBV", rank, watch),
        "watch first": lambda watch: sharded("watch first", watch),
        "shard first": lambda watch: sharded("shard first", watch),
    }
    report = {}
    for name, job in jobs.items():
        plain = job(unwatched)
        traced = Tracing("modules", "pipeline", "optimizer")
        for source in traced.sources:
            source.install()
        losses = job(traced.watch)
        for source in traced.sources:
            source.uninstall()
        report[name] = {
            "plain": plain,
            "losses": losses,
            "spans": [
                {
                    "kind": span.kind,
                    "name": span.name,
                    "chunk": span.chunk,
                    "microbatch": span.row.microbatch,
                    "depth": span.row.depth,
                    "step": span.row.step,
                    "begin_ns": span.row.begin_ns,
                    "end_ns": span.row.end_ns,
                }
                for span in traced.spans()
            ],
        }
    from trace_hooks.recording.guard import account

    Path(output).write_text(json.dumps({"jobs": report, "errors": account.errors}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
