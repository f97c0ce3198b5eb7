"""The layer that a module or parameter belongs to, derived from its dotted path.

The first number in a path counts the layer: `model.layers.3.self_attn.q_proj.weight` is of layer 3.
Where a stage counts its layers from 0 again, ingest/sql/tensor_health.sql corrects it, since it
sees all stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trace_hooks.sources.training.module_parts import ATTENTION, MLP, NEITHER, WRAPPER_CHILDREN

NO_LAYER = -1

_WRAPPERS = {*WRAPPER_CHILDREN, "_orig_mod"}


MAX_KNOWN = 1 << 14
"""Paths whose place is cached: every step uses the same ones."""


@dataclass(frozen=True)
class Place:
    """Where a tensor belongs. `tensor`: what an output there is called in schema.TENSORS."""

    layer: int
    name: str
    tensor: str


@lru_cache(MAX_KNOWN)
def output_place(path: str, class_name: str) -> Place:
    """Place of a module's output; blocks themselves carry the residual stream."""
    segments = _segments(path)
    layer_at = _layer_at(segments)
    if layer_at is None:
        return Place(NO_LAYER, ".".join(segments), "output")
    layer, inside = int(segments[layer_at]), segments[layer_at + 1 :]
    if not inside:
        return Place(layer, ".".join(segments), "residual")
    roles = (role for text in (*inside, class_name) if (role := _role(text)))
    return Place(layer, ".".join(segments), next(roles, "output"))


@lru_cache(MAX_KNOWN)
def parameter_place(path: str) -> Place:
    """Place of the group that a parameter belongs to: its layer's attention, MLP or the rest; its
    module outside of layers.
    """
    modules = _segments(path)[:-1]
    layer_at = _layer_at(modules)
    if layer_at is None:
        return Place(NO_LAYER, ".".join(modules) or path, "output")
    for index in range(layer_at + 1, len(modules)):
        role = _role(modules[index])
        if role:
            return Place(int(modules[layer_at]), ".".join(modules[: index + 1]), role)
    return Place(int(modules[layer_at]), ".".join(modules[: layer_at + 1]), "residual")


@lru_cache(MAX_KNOWN)
def plain_path(path: str) -> str:
    """A dotted path without the wrappers in it."""
    return ".".join(_segments(path))


def _segments(path: str) -> list[str]:
    segments = [segment for segment in path.split(".") if segment not in _WRAPPERS]
    return segments[1:] if segments[:1] == ["module"] and len(segments) > 1 else segments  # DDP


def _layer_at(segments: list[str]) -> int | None:
    return next((index for index, segment in enumerate(segments) if segment.isdecimal()), None)


def _role(text: str) -> str | None:
    if NEITHER.search(text):
        return None
    if ATTENTION.search(text):
        return "attention"
    return "mlp" if MLP.search(text) else None
