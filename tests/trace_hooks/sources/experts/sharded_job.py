"""One of two ranks that train models with experts under DDP, FSDP1 and FSDP2, hooks off and on.

Blocks are checkpointed, and choices are counted at once, in the middle of a forward.

python sharded_job.py RANK STORE OUTPUT
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
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

from tests.trace_hooks.sources.experts.tiny_moe import MoE, TinyMoE, by_hand, end_step, register
from tests.trace_hooks.tiny_models import Tracing, batch, loss_of
from trace_hooks.recording.guard import account
from trace_hooks.sources.experts import router_calls

RANKS, STEPS = 2, 3


def made() -> TinyMoE:
    """A model whose routers' biases are parameters, as in DeepSeek's own code."""
    torch.manual_seed(3)
    model = TinyMoE(reentrant=False)
    for router in model.routers():
        del router.bias
        router.bias = nn.Parameter(torch.arange(4.0) / 100)
    return model


def ddp(model: TinyMoE) -> nn.Module:
    return DistributedDataParallel(model, static_graph=True)


def fsdp1(model: TinyMoE, use_orig_params: bool) -> nn.Module:
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({MoE}),
        use_orig_params=use_orig_params,
        device_id=torch.device("cpu"),
    )


def fsdp2(model: TinyMoE) -> nn.Module:
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in model.layers:
        fully_shard(layer.moe, mesh=mesh)
    return fully_shard(model, mesh=mesh)


WRAPPERS: dict[str, Callable[[TinyMoE], nn.Module]] = {
    "DDP": ddp,
    "FSDP1, flat": lambda model: fsdp1(model, False),
    "FSDP1": lambda model: fsdp1(model, True),
    "FSDP2": fsdp2,
}


def trained(
    wrapper: str, rank: int, traced: Tracing | None
) -> tuple[list[list[float]], list[list[int]]]:
    """(gradients, then parameters of each step; loads by hand of each step and layer)."""
    model = made()
    routers = model.routers()
    if traced is not None:
        traced.watch(model)
        register(traced, model, bias="bias")
    wrapped = WRAPPERS[wrapper](model)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-2)
    values: list[list[float]] = []
    for step in range(STEPS):
        if traced is not None:
            traced.rank_state.step = step
            traced.source("experts").step_begin()
        loss_of(wrapped, batch(RANKS * step + rank)).backward()
        values.append(flat(parameter.grad for parameter in wrapped.parameters()))
        optimizer.step()
        optimizer.zero_grad()
        if traced is not None:
            end_step(traced)
        values.append(flat(wrapped.parameters()))
    first_forwards = [router.seen[2 * step] for step in range(STEPS) for router in routers]
    return values, [by_hand(indices) for indices in first_forwards]


def flat(tensors) -> list[float]:
    found: list[float] = []
    for tensor in tensors:
        own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        found += [] if own is None else own.detach().flatten().tolist()
    return found


def main(rank: int, store: str, output: str) -> None:
    torch.set_num_threads(1)
    router_calls.MAX_KEPT = 0
    distributed.init_process_group(
        "gloo",
        store=distributed.FileStore(store, RANKS),
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=60),
    )
    report = {}
    for wrapper in WRAPPERS:
        plain, _ = trained(wrapper, rank, None)
        traced = Tracing("modules", "experts")
        for source in traced.sources:
            source.install()
        values, by_hand_counts = trained(wrapper, rank, traced)
        for source in traced.sources:
            source.uninstall()
        rows = traced.rows("expert_load")
        report[wrapper] = {
            "equal": values == plain,
            "numbers": sum(map(len, values)),
            "tokens": [row["tokens"] for row in rows],
            "by hand": by_hand_counts,
            "biases": [row["bias"] for row in rows],
        }
    Path(output).write_text(json.dumps({"jobs": report, "errors": account.errors}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
