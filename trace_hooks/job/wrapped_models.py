"""The parallel layout of a job as the objects say it that make its model parallel.

DDP, FSDP and pipeline stages hold the group of ranks along their axis, whatever names its mesh has.
Where the groups of this rank multiply to the whole world, they are the layout: the ranks of a group
lie a stride apart, and by the strides the axes are in order. Only such objects as the job has made
are looked at.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trace_hooks.layout import ParallelLayout

AxisRanks = tuple[str, tuple[int, ...]]
"""An axis and the global ranks, in order, of this rank's group along it."""


def _of_ddp(model: Any) -> Iterator[AxisRanks]:
    yield "dp", _ranks(model.process_group)


def _of_fsdp1(model: Any) -> Iterator[AxisRanks]:
    between = getattr(model, "_inter_node_pg", None)  # of hybrid sharding alone
    if between is None:
        yield "dp", _ranks(model.process_group)
    else:
        yield "dp_shard", _ranks(model.process_group)
        yield "dp_replicate", _ranks(between)


def _of_fsdp2(info: Any) -> Iterator[AxisRanks]:
    shard = getattr(info, "shard_process_group", None)
    copies = getattr(info, "replicate_process_group", None)
    if shard is None or copies is None:
        yield "dp", _ranks(copies if shard is None else shard)
    else:
        yield "dp_shard", _ranks(shard)
        yield "dp_replicate", _ranks(copies)


def _of_stage(stage: Any) -> Iterator[AxisRanks]:
    yield "pp", _ranks(stage.group)


def _of_deepspeed(engine: Any) -> Iterator[AxisRanks]:
    if engine.dp_world_size:  # set with the groups
        yield "dp", _ranks(engine.data_parallel_group)
    if engine.sequence_parallel_size > 1:
        yield "cp", _ranks(engine.seq_parallel_group)
    grid = getattr(engine, "grid", None)  # of a pipeline
    if grid is not None:
        yield "pp", _ranks(grid.get_pipe_parallel_group())
        yield "tp", _ranks(grid.get_slice_parallel_group())


DDP = ("torch.nn.parallel.distributed", "DistributedDataParallel")
_FSDP2 = "torch.distributed.fsdp._fully_shard._fsdp_common"
_STAGE = "torch.distributed.pipelining.stage"

HOLDERS: dict[tuple[str, str], Callable[[Any], Iterator[AxisRanks]]] = {
    DDP: _of_ddp,
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"): _of_fsdp1,
    (_FSDP2, "FSDPMeshInfo"): _of_fsdp2,
    (_FSDP2, "DDPMeshInfo"): _of_fsdp2,
    (_STAGE, "_PipelineStageBase"): _of_stage,
    ("deepspeed.runtime.engine", "DeepSpeedEngine"): _of_deepspeed,
}
"""By module and class: what an object of it, or of a subclass, says. Verified with torch 2.13 and
DeepSpeed 0.19."""


def instances(*names: tuple[str, str]) -> list[Any]:
    """Objects alive of these classes (module, name) and their subclasses, as far as imported."""
    classes: set[type] = set()
    for module, name in names:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            classes |= {kind, *_below(kind)}
    if not classes:
        return []
    # its referrers hold no other object: tensors stay free
    return [thing for thing in gc.get_referrers(*classes) if type(thing) in classes]


def layout_of_wrapped_models(world_size: int) -> ParallelLayout | None:
    """Layout by the groups of DDP, FSDP and pipeline stages; None where they do not say it all.

    None, too, where two of them disagree about an axis, and where this rank is in another group of
    several ranks that is along no axis of the layout: the job has an axis that nobody names.
    """
    ranks_by_axis: dict[str, set[tuple[int, ...]]] = {}
    for thing in instances(*HOLDERS):
        for axis, ranks in _said_by(thing):
            if len(ranks) > 1:
                ranks_by_axis.setdefault(axis, set()).add(ranks)
    if any(len(groups) > 1 for groups in ranks_by_axis.values()):
        return None
    layout = layout_by_strides({axis: min(of) for axis, of in ranks_by_axis.items()}, world_size)
    if layout is None or any(layout.axis_of(ranks) == "unknown" for ranks in _groups(world_size)):
        return None
    return layout


def layout_by_strides(
    ranks_by_axis: dict[str, tuple[int, ...]], world_size: int
) -> ParallelLayout | None:
    """Layout whose axes have these groups of one rank; None unless they make the whole world."""
    strides = {axis: ranks[1] - ranks[0] for axis, ranks in ranks_by_axis.items()}
    faster = 1
    for axis in sorted(strides, key=strides.__getitem__):
        ranks = ranks_by_axis[axis]
        first, stride = ranks[0], strides[axis]
        if stride != faster or ranks != tuple(range(first, first + stride * len(ranks), stride)):
            return None
        faster *= len(ranks)
    if not strides or faster != world_size:
        return None
    slowest_first = sorted(strides, key=strides.__getitem__, reverse=True)
    try:
        return ParallelLayout(tuple((axis, len(ranks_by_axis[axis])) for axis in slowest_first))
    except ValueError:  # dp of one model beside dp_shard of another
        return None


def _said_by(thing: Any) -> Iterable[AxisRanks]:
    names = {(kind.__module__, kind.__name__) for kind in type(thing).__mro__}
    reader = next(read for name, read in HOLDERS.items() if name in names)
    try:
        return list(reader(thing))
    except AttributeError:  # it is being made, or its process group is gone
        return ()


def _ranks(group: Any) -> tuple[int, ...]:
    """Global ranks of a process group; () where it is destroyed."""
    from torch.distributed import distributed_c10d

    try:
        return tuple(distributed_c10d.get_process_group_ranks(group))
    except (KeyError, RuntimeError, ValueError):
        return ()


def _groups(world_size: int) -> Iterator[tuple[int, ...]]:
    """Ranks of the groups of this rank that are neither the world nor itself alone."""
    from torch.distributed import distributed_c10d

    for ranks in list(distributed_c10d._world.pg_group_ranks.values()):
        if 1 < len(ranks) < world_size:
            yield tuple(sorted(ranks))


def _below(kind: type) -> Iterator[type]:
    subclasses: list[type] = type.__subclasses__(kind)
    for subclass in subclasses:
        yield subclass
        yield from _below(subclass)
