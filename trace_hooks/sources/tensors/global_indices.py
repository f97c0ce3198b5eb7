"""Indices in the whole model: layers counted over all pipeline stages, heads over all
tensor-parallel ranks.

A layer's index is that in its name, or its block's `layer_number` (Megatron, from 1). Where a stage
counts from 0 again, the stages before it are assumed to have as many layers as it has: a guess,
which holds for the even splits that frameworks make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from trace_hooks.job.process_info import distributed
from trace_hooks.layout import ParallelLayout
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.tensors.attention import AttentionCall
from trace_hooks.sources.tensors.tensor_names import NO_LAYER, output_place, parameter_place
from trace_hooks.sources.training.module_parts import Part, find_parts


@dataclass(frozen=True, eq=False)
class AttentionPlace:
    """Where a call of attention happens. `head_begin`, `key_head_begin`: its first heads, in the
    model.

    `mark` is the same for all calls within one forward of the part.
    """

    part: Part
    stage: int | None
    layer: int
    name: str
    chunk: int
    microbatch: int
    shard: str
    head_begin: int
    key_head_begin: int
    mark: Any


class GlobalPlaces:
    """Places in the models that the source `modules` has hooked."""

    def __init__(self, context: SourceContext) -> None:
        self._models = context.models
        self._rank_state = context.rank_state
        self._counts: dict[int, int] = {}  # by id of a model: layers of a stage counted from 0
        self._layers: tuple[list[int], list[int]] = ([], [])  # (ids of the models, their layers)

    def layer(self, part: Part, stage: int | None) -> int:
        """Layer of a part of a model watched as `stage` (None: the running chunk's)."""
        own = output_place(part.name, type(part.module).__name__).layer
        if own == NO_LAYER:
            return NO_LAYER
        block = part.module if part.block is None else part.block.module
        number = getattr(block, "layer_number", None)
        if type(number) is int and number > 0:
            return number - 1
        return own + self._before(stage)

    def parameter_layer(self, path: str, stage: int | None) -> int:
        """Layer of a parameter of a model watched as `stage`."""
        own = parameter_place(path).layer
        return own if own == NO_LAYER else own + self._before(stage)

    def layers(self) -> list[int]:
        """Layers of this rank, ascending."""
        models = self._models.roots.values()
        ids = [id(model) for model, _ in models]
        if ids != self._layers[0]:
            layers = {
                self.layer(part, stage) for model, stage in models for part in find_parts(model)
            }
            self._layers = ids, sorted(layers - {NO_LAYER})
        return self._layers[1]

    def attention(self, call: AttentionCall) -> AttentionPlace | None:
        """Place of a call that is about to run on this thread; None outside of watched models."""
        models, state = self._models, self._rank_state
        running = None if models.running_part is None else models.running_part()
        if running is None:
            return None
        part, stage, mark = running
        index, size = tensor_parallel(part.module, state.layout)
        return AttentionPlace(
            part,
            stage,
            self.layer(part, stage),
            output_place(part.name, type(part.module).__name__).name,
            state.chunk if stage is None else stage,
            state.microbatch,
            f"tp={index}" if size > 1 else "whole",
            index * call.num_heads,
            index * call.num_key_heads,
            mark,
        )

    def _before(self, stage: int | None) -> int:
        """Layers of the stages before, where this one's model counts from 0 again."""
        stage = self._rank_state.chunk if stage is None else stage
        if stage <= 0:
            return 0
        for model, model_stage in list(self._models.roots.values()):
            if model_stage is None or model_stage == stage:
                return stage * self._count(model)
        return 0

    def _count(self, model: nn.Module) -> int:
        """Layers of a model that counts from 0, else 0."""
        if id(model) not in self._counts:
            names = {output_place(part.name, "").layer for part in find_parts(model)} - {NO_LAYER}
            self._counts[id(model)] = len(names) if 0 in names else 0
        return self._counts[id(model)]


def tensor_parallel(module: nn.Module, layout: ParallelLayout | None) -> tuple[int, int]:
    """(index, size): this rank's place on the axis over which the heads of `module` are spread.

    Derived from its parameters: DTensors on a mesh axis `tp`, or Megatron's mark; else (0, 1).
    """
    for parameter in module.parameters():
        mesh: Any = getattr(parameter, "device_mesh", None)
        if mesh is not None:
            names = mesh.mesh_dim_names or ()
            tp_at = names.index("tp") if "tp" in names else -1
            coordinate = mesh.get_coordinate()
            if tp_at >= 0 and coordinate and not parameter.placements[tp_at].is_replicate():
                return coordinate[tp_at], mesh.size(tp_at)
        elif getattr(parameter, "tensor_model_parallel", False) and layout is not None:
            dist = distributed()
            if dist is not None:
                rank = dist.get_rank()
                return layout.coords(rank)["tp"], layout.size("tp")
    return 0, 1


def coordinates(layout: ParallelLayout | None) -> dict[str, int]:
    """This rank's index on every axis of the layout; empty where that is not known."""
    dist = distributed()
    if dist is None or layout is None or not layout.has(dist.get_rank()):
        return {}
    return layout.coords(dist.get_rank())


def holds_first_copy(tensor: Any, coordinates: dict[str, int]) -> bool:
    """Whether this rank is the first of those that hold the same part of a tensor.

    `coordinates`: of this rank in the layout. A DTensor names the mesh axes on which it is
    replicated; a plain tensor is assumed to be the same on all replicas, and on all TP ranks unless
    Megatron marked it.
    """
    tp = coordinates.get("tp", 0)
    if not hasattr(tensor, "placements"):
        marked = getattr(tensor, "tensor_model_parallel", False)
        return coordinates.get("dp", 0) == 0 and (tp == 0 or marked)
    mesh = tensor.device_mesh
    along = zip(mesh.get_coordinate() or (), tensor.placements, strict=False)
    if any(index > 0 and placement.is_replicate() for index, placement in along):
        return False
    return tp == 0 or "tp" in (mesh.mesh_dim_names or ())


def has_all_columns(tensor: Any, shard: str) -> bool:
    """Whether this rank has whole rows of an output of which it has `shard`."""
    if not hasattr(tensor, "placements"):
        return shard == "whole"
    last = (-1, tensor.dim() - 1)
    return all(getattr(placement, "dim", None) not in last for placement in tensor.placements)


def first_index(tensor: Any, dim: int) -> int:
    """Index in the whole tensor of the first of this rank's along `dim`; 0 where all are here."""
    if not hasattr(tensor, "placements"):
        return 0
    mesh, begin = tensor.device_mesh, 0
    coordinates = mesh.get_coordinate() or ()
    length = tensor.shape[dim]
    for axis, (placement, index) in enumerate(zip(tensor.placements, coordinates, strict=False)):
        if getattr(placement, "dim", None) == dim % tensor.dim():
            length = -(-length // mesh.size(axis))
            begin += index * length
    return begin
