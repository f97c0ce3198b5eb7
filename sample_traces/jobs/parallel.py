"""How the small GPT is spread over ranks: pipeline stages, FSDP2 over dp, tensor parallel over tp.

The order matters: cut into stages, then parallelize_module over tp, then fully_shard over dp. Or
DDP over dp, without tensor parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from sample_traces.jobs.inject import local_part
from sample_traces.jobs.model import Stage
from sample_traces.jobs.schedules import ONE_STAGE_A_RANK, num_stages, stage_indices

_CLASSES: dict[str, Any] = {
    "1f1b": Schedule1F1B,
    "gpipe": ScheduleGPipe,
    "interleaved": ScheduleInterleaved1F1B,
    "zero-bubble": ScheduleInterleavedZeroBubble,
    "zbv": ScheduleZBVZeroBubble,
}


def spread(
    stage: Stage, mesh: DeviceMesh, sequence_parallel: bool, vocabulary_parallel: bool = False
) -> None:
    """Shard the blocks of a stage over mesh["tp"] and everything over mesh["dp"], in place.

    `vocabulary_parallel`: the head, too; its logits are then a DTensor of which each rank has some
    tokens, and loss and backward need torch's `loss_parallel`.
    """
    for block in stage.blocks.values():
        if mesh["tp"].size() > 1:
            parallelize_module(block, mesh["tp"], _tensor_plan(sequence_parallel))
        fully_shard(block, mesh=mesh["dp"], reshard_after_forward=False)
    if mesh["tp"].size() > 1:
        edges: dict[str, Any] = {}
        if sequence_parallel:
            edges = {
                "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
                "norm": SequenceParallel(),
                "head": PrepareModuleInput(
                    input_layouts=(Shard(1),),
                    desired_input_layouts=(Replicate(),),
                    use_local_output=True,
                ),
            }
        if vocabulary_parallel:
            edges["head"] = ColwiseParallel(
                input_layouts=Shard(1) if sequence_parallel else Replicate(),
                output_layouts=Shard(-1),
                use_local_output=False,
            )
        own = {name: plan for name, plan in edges.items() if getattr(stage, name) is not None}
        parallelize_module(stage, mesh["tp"], own)
    fully_shard(stage, mesh=mesh["dp"], reshard_after_forward=False)


def replicate(stage: Stage, mesh: DeviceMesh) -> nn.Module:
    """The stage with gradients averaged over dp by DDP; every rank holds all its parameters."""
    return nn.parallel.DistributedDataParallel(stage, process_group=mesh["dp"].get_group())


def _tensor_plan(sequence_parallel: bool) -> dict[str, Any]:
    """Two all-reduces a block and direction; with sequence parallel the same bytes as gathers."""
    if not sequence_parallel:
        return {
            "attention.qkv": ColwiseParallel(),
            "attention.out": RowwiseParallel(),
            "mlp.up": ColwiseParallel(),
            "mlp.down": RowwiseParallel(),
        }
    gather = PrepareModuleInput(
        input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),), use_local_output=False
    )
    return {
        "attention_norm": SequenceParallel(),
        "attention": gather,
        "attention.qkv": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "mlp_norm": SequenceParallel(),
        "mlp": gather,
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
    }


def build_schedule(
    name: str,
    modules: Sequence[nn.Module],
    mesh: DeviceMesh,
    device: torch.device,
    num_microbatches: int,
    loss: Callable[..., torch.Tensor],
) -> Any:
    """The pipeline schedule of this rank over its stages, in order of its chunks."""
    group = mesh["pp"].get_group()
    total = num_stages(name, mesh["pp"].size())
    indices = stage_indices(name, mesh.get_local_rank("pp"), mesh["pp"].size())
    stages = [
        PipelineStage(module, index, total, device, group=group)
        for index, module in zip(indices, modules, strict=True)
    ]
    make = _CLASSES[name]
    if name in ONE_STAGE_A_RANK:
        return make(stages[0], num_microbatches, loss_fn=loss)
    return make(stages, num_microbatches, loss_fn=loss)


def reduce_norm_and_loss(
    parameters: Iterable[nn.Parameter], loss: torch.Tensor, mesh: DeviceMesh
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient norm over the whole model and mean loss over dp, equal on every rank.

    `loss`: this rank's mean loss, 0 where no last stage is. One all-reduce over all ranks; a
    parameter that tensor-parallel ranks hold in full is counted once.
    """
    tp = mesh["tp"].size()
    squares = torch.zeros((), device=loss.device)
    for parameter in parameters:
        if parameter.grad is not None:
            copies = _copies(parameter.grad, mesh)
            squares += local_part(parameter.grad).square().sum() / copies
    both = torch.stack([squares, loss / (tp * mesh["dp"].size())])
    dist.all_reduce(both)
    return both[0].sqrt(), both[1]


def _copies(gradient: Any, mesh: DeviceMesh) -> int:
    """Ranks that hold the same part of a gradient."""
    tp = mesh["tp"].size()
    if not hasattr(gradient, "device_mesh"):  # DDP
        return tp * mesh["dp"].size()
    axes = gradient.device_mesh.mesh_dim_names
    sharded = "tp" in axes and gradient.placements[axes.index("tp")].is_shard()
    return 1 if sharded else tp


def scale_gradients(parameters: Iterable[nn.Parameter], factor: torch.Tensor) -> None:
    """Multiply every gradient by `factor`, shard by shard."""
    for parameter in parameters:
        if parameter.grad is not None:
            local_part(parameter.grad).mul_(factor)
