"""Find the parallel layout of a job that did not state one.

Looks only at what is already imported (Megatron's parallel_state, torchtitan's ParallelDims,
torch's device meshes, then the objects that make a model parallel): no import, no collective, no
change of any state.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from trace_hooks.job.wrapped_models import instances, layout_of_wrapped_models
from trace_hooks.layout import EXPERT_AXES, ParallelLayout, folded

AXIS_OF_NAME = {
    "pp": "pp",
    "pipe": "pp",
    "pipeline": "pp",
    "pipeline_parallel": "pp",
    "pipeline_model_parallel_group": "pp",
    "tp": "tp",
    "model": "tp",
    "tensor": "tp",
    "tensor_parallel": "tp",
    "tensor_model_parallel_group": "tp",
    "cp": "cp",
    "context": "cp",
    "context_parallel": "cp",
    "sp": "cp",
    "sequence_parallel": "cp",
    "context_parallel_group": "cp",
    "dp": "dp",
    "ddp": "dp",
    "data": "dp",
    "data_parallel": "dp",
    "batch": "dp",
    "fsdp": "dp",
    "dp_cp": "dp",
    "dp_shard_cp": "dp",
    "dp_shard": "dp_shard",
    "shard": "dp_shard",
    "dp_replicate": "dp_replicate",
    "replicate": "dp_replicate",
    "data_parallel_group": "dp",
    "data_parallel_group_with_cp": "dp",
    "ep": "ep",
    "expert": "ep",
    "expert_parallel": "ep",
    "expert_model_parallel_group": "ep",
    "etp": "etp",
    "expert_tensor_parallel_group": "etp",
    "edp": "dp",
    "efsdp": "dp",
    "expert_data_parallel_group": "dp",
}
"""Parallel axis by the names that DeviceMesh users and Megatron's groups carry (lower case).

A dimension sp of a mesh splits sequences, as cp does (Ulysses): Megatron's sequence parallelism is
along tp and has no dimension of its own.
"""

SHARDING = ("fsdp", "shard")
"""Names of a dimension that shards the model, beside one that replicates it (HSDP)."""

TORCHTITAN_AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
"""Slowest first, as torchtitan arranges the ranks, and the names of its sizes."""

MEGATRON_SIZES = {
    "tp": "get_tensor_model_parallel_world_size",
    "cp": "get_context_parallel_world_size",
    "dp": "get_data_parallel_world_size",
    "pp": "get_pipeline_model_parallel_world_size",
}
MEGATRON_RANK_LISTS = {
    "tp": "_TENSOR_MODEL_PARALLEL_GLOBAL_RANKS",
    "pp": "_PIPELINE_GLOBAL_RANKS",
    "cp": "_CONTEXT_PARALLEL_GLOBAL_RANKS",
    "dp": "_DATA_PARALLEL_GLOBAL_RANKS",
}


def axis_of_name(name: str) -> str | None:
    """Axis that a mesh dimension or group description names, such as mesh_tp; None without one.

    >>> axis_of_name("mesh_tp"), axis_of_name("default_pg")
    ('tp', None)
    """
    plain = re.sub(r"^mesh_(dim_)?", "", name.lower())
    return AXIS_OF_NAME.get(plain)


def detect_layout(training: bool = True) -> ParallelLayout | None:
    """Layout of this process's job; None where unknown, or not known yet.

    `training`: a step has begun, so the groups and models of the job are all made.
    Never raises for a mesh it cannot read: an unknown dimension name is an unknown layout. It goes
    through all objects of the garbage collector, so call it at the first steps only.
    """
    found = _from_megatron() or _from_torchtitan() or _from_meshes()
    world = _world_size()
    if found is not None or world is None or not training:
        return found
    return layout_of_wrapped_models(world)


def _from_torchtitan() -> ParallelLayout | None:
    """Layout of torchtitan's ParallelDims, whose meshes fold cp into the dimension that shards."""
    for dims in instances(("torchtitan.distributed.parallel_dims", "ParallelDims")):
        sizes = {axis: getattr(dims, axis, 1) for axis in (*TORCHTITAN_AXES, *EXPERT_AXES)}
        larger = {axis: size for axis, size in sizes.items() if size > 1}
        if "ep" not in larger:
            larger.pop("etp", None)
        with suppress(TypeError, ValueError):
            layout = ParallelLayout.from_sizes(TORCHTITAN_AXES, **larger)
            if layout.world_size == _world_size():
                return layout
    return None


def _from_meshes() -> ParallelLayout | None:
    """Layout of the root mesh that says most about the whole job, whichever was made first.

    Not that of experts, if it can be helped: there the axes of everything else are folded into dp.
    """
    meshes = instances(("torch.distributed.device_mesh", "DeviceMesh"))
    layouts = [layout for mesh in meshes if (layout := _layout_of_mesh(mesh)) is not None]
    world = _world_size()
    whole = [layout for layout in layouts if world is None or layout.world_size == world]
    found = max(whole, key=_says, default=None)
    return None if found is None else replace(found, experts=_expert_sizes(meshes))


def _says(layout: ParallelLayout) -> tuple[int, bool, int, int]:
    """How much a layout says: axes that split the model, then that its mesh is none of experts."""
    larger = [axis for axis, size in layout.axes if size > 1]
    splitting = sum(axis in ("pp", "cp", "tp") for axis in larger)
    return splitting, not layout.experts, len(larger), len(layout.axes)


def _expert_sizes(meshes: Sequence[Any]) -> tuple[tuple[str, int], ...]:
    """Sizes of the axes of experts, which have a mesh of their own: (pp, edp, ep, etp)."""
    sizes: dict[str, int] = {}
    for mesh in meshes:
        for name, size in zip(mesh.mesh_dim_names or (), mesh.mesh.shape, strict=False):
            axis = axis_of_name(str(name))
            if axis in EXPERT_AXES and size > 1:
                sizes[axis] = int(size)
    return tuple((axis, sizes[axis]) for axis in EXPERT_AXES if axis in sizes)


def _layout_of_mesh(mesh: Any) -> ParallelLayout | None:
    """Layout of a mesh with its own names translated to axes; None where one stays unknown."""
    names = _axes_of_names([str(name) for name in mesh.mesh_dim_names or ()])
    if not names or None in names or len(set(names)) != len(names):
        return None
    shape = tuple(int(size) for size in mesh.mesh.shape)
    ranks = tuple(int(rank) for rank in mesh.mesh.flatten().tolist())
    plain = ranks == tuple(range(len(ranks)))
    axes = tuple((str(name), size) for name, size in zip(names, shape, strict=True))
    try:
        return ParallelLayout(*folded(axes), None if plain else ranks)
    except ValueError:  # a mesh of experts, or dp together with dp_shard
        return None


def _axes_of_names(names: list[str]) -> list[str | None]:
    """Axis of each dimension; beside one that replicates, fsdp is the part that shards."""
    axes = [axis_of_name(name) for name in names]
    shards = [name.lower() in SHARDING for name in names]
    copies = [axis in ("dp", "dp_replicate") for axis in axes]
    if any(shards) and any(c and not s for c, s in zip(copies, shards, strict=True)):
        for at, axis in enumerate(axes):
            if shards[at]:
                axes[at] = "dp_shard"
            elif axis == "dp":
                axes[at] = "dp_replicate"
    return axes


def _world_size() -> int | None:
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return int(dist.get_world_size())


def _from_megatron() -> ParallelLayout | None:
    """Layout of Megatron's initialised parallel_state: sizes by its getters, order by its ranks.

    The order of the axes is the order of the strides between neighbours of this rank's groups.
    Groups of experts are made last, and before that asking for them fails.
    """
    state: Any = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return None
    experts = _megatron_experts(state)
    if experts is None:
        return None
    sizes = {axis: int(getattr(state, getter)()) for axis, getter in MEGATRON_SIZES.items()}
    strides: dict[str, int] = {}
    for axis, size in sizes.items():
        ranks = getattr(state, MEGATRON_RANK_LISTS[axis], None)
        if size > 1 and ranks and isinstance(ranks[0], int):
            strides[axis] = ranks[1] - ranks[0]
    default = ("tp", "cp", "dp", "pp")  # Megatron's own default order, fastest first
    ordered = sorted(
        (axis for axis in default if sizes[axis] > 1),
        key=lambda axis: (strides.get(axis, sys.maxsize), default.index(axis)),
    )
    return ParallelLayout.from_sizes(
        list(reversed(ordered)),
        **{axis: sizes[axis] for axis in ordered},
        **{axis: size for axis, size in experts.items() if size > 1},
    )


def _megatron_experts(state: Any) -> dict[str, int] | None:
    """Sizes of the axes of experts; None as long as their groups do not exist."""
    try:
        experts = {"ep": state.get_expert_model_parallel_world_size()}
        if hasattr(state, "get_expert_tensor_parallel_world_size"):
            experts["etp"] = state.get_expert_tensor_parallel_world_size()
    except AssertionError:  # what Megatron raises for a group that is not initialised
        return None
    if None in experts.values():
        return None
    return {axis: int(size) for axis, size in experts.items()}
