"""Changes outputs of modules and of attention: the part of `perturbing` that acts in a forward.

Gradients pass through the change. Misses: compiled parts, outputs that are neither tensor nor
tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trace_hooks.protocol.perturbations import Perturbation
from trace_hooks.recording.guard import guarded
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.perturbation.perturbed_values import (
    Draw,
    on_first_tensor,
    on_own_part,
    perturbed,
    perturbed_head,
)
from trace_hooks.sources.tensors.attention import CALLS, AttentionCall
from trace_hooks.sources.tensors.global_indices import GlobalPlaces, tensor_parallel
from trace_hooks.sources.tensors.tensor_names import output_place
from trace_hooks.sources.training.module_parts import Part, find_parts
from trace_hooks.sources.training.part_calls import Detachable

is_compiling = torch.compiler.is_compiling


class ActivePerturbation:
    """A perturbation in progress."""

    def __init__(self, request: Perturbation) -> None:
        self.request = request
        self.handles: list[Any] = []
        self.steps = 0
        self.tensors = 0  # changed so far


def draw_of(request: Perturbation, step: int, *names: object) -> Draw:
    """The random numbers of a perturbation for one tensor in a step."""
    return Draw(request.seed, request.kind, step, request.layer, *names)


class OrElse:
    """Context that calls a function where its body raises; the error goes on to the guard."""

    def __init__(self, call: Any, *args: Any) -> None:
        self._call, self._args = call, args

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._call(*self._args)


class _AfterForward(Detachable):
    """Hook of a module whose output is changed."""

    def __init__(
        self, outputs: PerturbedOutputs, active: ActivePerturbation, part: Part, stage: int | None
    ) -> None:
        self.outputs, self.active, self.part, self.stage = outputs, active, part, stage

    def __call__(self, module: Any, args: Any, output: Any) -> Any:
        if module.training and not is_compiling():
            return self.outputs.output(self.active, self.part, self.stage, output)
        return None


def _on_head(
    dim: int,
    head: int,
    call: AttentionCall,
    request: Perturbation,
    draw: Draw,
    tensor: Tensor,
    shard: str,
) -> Tensor | None:
    return perturbed_head(tensor, dim, head, call, request, draw)


class PerturbedOutputs:
    """Hooks of the perturbations that change activations; `fail` ends all of them."""

    def __init__(
        self,
        context: SourceContext,
        places: GlobalPlaces,
        active: dict[str, ActivePerturbation],
        fail: Callable[[], object],
    ) -> None:
        self._models = context.models
        self._rank_state = context.rank_state
        self.coordinates: dict[str, int] = {}
        """Of this rank, by axis; set at each step."""
        self._places = places
        self._active = active
        self._fail = fail
        self._lengths: dict[tuple[int | None, int], int] = {}  # tokens by (stage, layer)

    def hook(self, active: ActivePerturbation) -> None:
        """Hook the outputs that a perturbation changes."""
        request = active.request
        if request.head is not None:
            self.listen()
            return
        whats = ("residual",) if request.target == "residual" else ("attention", "mlp")
        whats = whats if request.module is None else (request.module,)
        for model, stage in list(self._models.roots.values()):
            for part in find_parts(model):
                what = output_place(part.name, type(part.module).__name__).tensor
                if what not in whats or self._places.layer(part, stage) != request.layer:
                    continue
                if not part.compiled:
                    hook = _AfterForward(self, active, part, stage)
                    # before hooks that read the output, and before FSDP and DDP
                    handle = part.module.register_forward_hook(hook, prepend=True)
                    active.handles.append(handle)
        self.listen()

    def listen(self) -> None:
        """Follow calls of attention while activations are changed: they show heads and tokens."""
        wants = any(active.request.target != "weights" for active in self._active.values())
        CALLS.unlisten(self._on_attention_call)
        CALLS.change = None
        if wants:
            CALLS.listen(self._on_attention_call)
            CALLS.change = self._attention

    @guarded("perturbing.attention_call")
    def _on_attention_call(self, call: AttentionCall) -> None:
        place = self._places.attention(call)
        if place is not None:
            self._lengths[place.stage, place.layer] = call.num_rows

    @guarded("perturbing.output")
    def output(self, active: ActivePerturbation, part: Part, stage: int | None, output: Any) -> Any:
        """The changed output of a module; None to leave it as it is."""

        def change(tensor: Tensor, shard: str) -> Tensor:
            draw = self._draw(
                active.request,
                part.name,
                shard or self._rows_here(part, stage, tensor),
                self._rank_state.microbatch,
                self._others(),
            )
            return perturbed(tensor, active.request, draw)

        with OrElse(self._fail):
            changed = on_first_tensor(output, lambda tensor: on_own_part(tensor, change))
            active.tensors += changed is not None
            return changed

    def _rows_here(self, part: Part, stage: int | None, tensor: Tensor) -> str:
        """Which part of a plain tensor this is: of sequence parallelism, or whole."""
        block = part if part.block is None else part.block
        index, size = tensor_parallel(block.module, self._rank_state.layout)
        length = self._lengths.get((stage, self._places.layer(part, stage)))
        rows = tensor.shape[-2] if tensor.dim() > 1 else 1
        return f"tp={index}" if size > 1 and rows * size == length else "whole"

    def _others(self) -> list[tuple[str, int]]:
        """Coordinates on the axes along which ranks have other data."""
        return [
            (axis, index) for axis, index in self.coordinates.items() if axis not in ("tp", "pp")
        ]

    @guarded("perturbing.attention")
    def _attention(self, call: AttentionCall, output: Any, dim: int) -> Any:
        """The changed output of attention, with its heads along `dim`; None to leave it."""
        place = self._places.attention(call)
        if place is None or not place.part.module.training:
            return None
        changed = None
        with OrElse(self._fail):
            for active in list(self._active.values()):
                request = active.request
                head = -1 if request.head is None else request.head - place.head_begin
                if request.layer != place.layer or not 0 <= head < call.num_heads:
                    continue
                draw = self._draw(request, request.head, place.microbatch, self._others())

                change = partial(_on_head, dim, head, call, request, draw)
                new = on_own_part(output if changed is None else changed, change)
                changed = changed if new is None else new
                active.tensors += new is not None
        return changed

    def _draw(self, request: Perturbation, *names: object) -> Draw:
        return draw_of(request, self._rank_state.step, *names)
