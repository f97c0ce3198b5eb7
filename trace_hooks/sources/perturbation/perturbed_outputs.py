"""What modules and attention return, changed on its way out: what `perturbing` does in a forward.

Gradients pass through the change. Misses: compiled parts, outputs that are neither tensor nor
tuple.
"""

from __future__ import annotations

from collections.abc import Callable
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
from trace_hooks.sources.training.modules import Detachable

is_compiling = torch.compiler.is_compiling


class Under:
    """A perturbation under way."""

    def __init__(self, asked: Perturbation) -> None:
        self.asked = asked
        self.handles: list[Any] = []
        self.steps = 0
        self.tensors = 0  # changed so far


def draw_of(asked: Perturbation, step: int, *names: object) -> Draw:
    """Its numbers for one tensor in a step."""
    return Draw(asked.seed, asked.kind, step, asked.layer, *names)


class OrElse:
    """Calls something where what is inside raises; the error goes on, to the hook's boundary."""

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
        self, outputs: PerturbedOutputs, under: Under, part: Part, stage: int | None
    ) -> None:
        self.outputs, self.under, self.part, self.stage = outputs, under, part, stage

    def __call__(self, module: Any, args: Any, output: Any) -> Any:
        if module.training and not is_compiling():
            return self.outputs.output(self.under, self.part, self.stage, output)
        return None


class PerturbedOutputs:
    """Hooks of the perturbations under way that change activations; `fail` ends all of them."""

    def __init__(
        self,
        context: SourceContext,
        places: GlobalPlaces,
        under: dict[str, Under],
        fail: Callable[[], object],
    ) -> None:
        self._models = context.models
        self._rank_state = context.rank_state
        self.coordinates: dict[str, int] = {}
        """of this rank, by axis; set with each step"""
        self._places = places
        self._under = under
        self._fail = fail
        self._lengths: dict[tuple[int | None, int], int] = {}  # tokens by (stage, layer)

    def hook(self, under: Under) -> None:
        """Have the outputs that are asked for changed."""
        asked = under.asked
        if asked.head is not None:
            self.listen()
            return
        whats = ("residual",) if asked.target == "residual" else ("attention", "mlp")
        whats = whats if asked.module is None else (asked.module,)
        for model, stage in list(self._models.roots.values()):
            for part in find_parts(model):
                what = output_place(part.name, type(part.module).__name__).tensor
                if what not in whats or self._places.layer(part, stage) != asked.layer:
                    continue
                if not part.compiled:
                    hook = _AfterForward(self, under, part, stage)
                    # before those who look at the output, and before FSDP and DDP
                    handle = part.module.register_forward_hook(hook, prepend=True)
                    under.handles.append(handle)
        self.listen()

    def listen(self) -> None:
        """Hear of calls of attention while activations are changed: they tell heads and tokens."""
        wants = any(one.asked.target != "weights" for one in self._under.values())
        CALLS.unlisten(self._heard)
        CALLS.change = None
        if wants:
            CALLS.listen(self._heard)
            CALLS.change = self._attention

    @guarded("perturbing.heard")
    def _heard(self, call: AttentionCall) -> None:
        place = self._places.attention(call)
        if place is not None:
            self._lengths[place.stage, place.layer] = call.num_rows

    @guarded("perturbing.output")
    def output(self, under: Under, part: Part, stage: int | None, output: Any) -> Any:
        """A module has returned `output`: what it returns instead, None for the same."""

        def change(tensor: Tensor, shard: str) -> Tensor:
            draw = self._draw(
                under.asked,
                part.name,
                shard or self._rows_here(part, stage, tensor),
                self._rank_state.microbatch,
                self._others(),
            )
            return perturbed(tensor, under.asked, draw)

        with OrElse(self._fail):
            found = on_first_tensor(output, lambda tensor: on_own_part(tensor, change))
            under.tensors += found is not None
            return found

    def _rows_here(self, part: Part, stage: int | None, tensor: Tensor) -> str:
        """Which part of a plain tensor this is: of sequence parallelism, or whole."""
        block = part if part.block is None else part.block
        index, size = tensor_parallel(block.module, self._rank_state.layout)
        length = self._lengths.get((stage, self._places.layer(part, stage)))
        rows = tensor.shape[-2] if tensor.dim() > 1 else 1
        return f"tp={index}" if size > 1 and rows * size == length else "whole"

    def _others(self) -> list[tuple[str, int]]:
        """Coordinates of a rank whose activations are of other data."""
        return [(axis, at) for axis, at in self.coordinates.items() if axis not in ("tp", "pp")]

    @guarded("perturbing.attention")
    def _attention(self, call: AttentionCall, output: Any, dim: int) -> Any:
        """Attention has returned `output`, its heads along `dim`; None for the same."""
        place = self._places.attention(call)
        if place is None or not place.part.module.training:
            return None
        found = None
        with OrElse(self._fail):
            for under in list(self._under.values()):
                asked = under.asked
                head = -1 if asked.head is None else asked.head - place.head_begin
                if asked.layer != place.layer or not 0 <= head < call.num_heads:
                    continue
                draw = self._draw(asked, asked.head, place.microbatch, self._others())

                def change(tensor: Tensor, shard: str, head=head, asked=asked, draw=draw) -> Any:  # type: ignore[no-untyped-def]
                    return perturbed_head(tensor, dim, head, call, asked, draw)

                made = on_own_part(output if found is None else found, change)
                found = found if made is None else made
                under.tensors += made is not None
        return found

    def _draw(self, asked: Perturbation, *names: object) -> Draw:
        return draw_of(asked, self._rank_state.step, *names)
