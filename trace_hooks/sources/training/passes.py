"""The backward pass as a whole: what autograd does before, between and after the modules' parts.

Sees: every call of torch.autograd.backward (Tensor.backward ends in it), from the gradient of the
loss to the last gradient. Misses: passes inside an action of a pipeline, which has a span of its
own, passes inside another one, torch.autograd.grad, and callers of the engine itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.training.backward import BackwardSpans, ModuleBackward, graph_task
from trace_hooks.sources.training.micro_batches import MicroBatches
from trace_hooks.sources.training.module_parts import Part
from trace_hooks.sources.unseen import uncompiled

_PASS = Part(nn.Identity(), "backward")

is_compiling = torch.compiler.is_compiling


class BackwardPasses:
    """Opens a span in `spans` when a backward pass begins; it ends with the pass."""

    def __init__(self, spans: BackwardSpans, micro_batches: MicroBatches) -> None:
        self._spans = spans
        self._micro_batches = micro_batches
        self._recorder = spans.recorder
        self._patches = Patches()

    def install(self) -> None:
        """Look at backward passes from now on."""
        self._patches.replace(torch.autograd, "backward", self._around_backward)

    def uninstall(self) -> None:
        """Look no more."""
        self._patches.restore()

    def _around_backward(self, original: Callable[..., None]) -> Callable[..., None]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            is_announced = not self._recorder.is_over and self._announce(tensors)
            original(tensors, *args, **kwargs)
            if is_announced:
                self._passed()

        wrapper: Callable[..., None] = uncompiled(original, backward)
        return wrapper

    @guarded("modules.pass_begins")
    def _announce(self, tensors: Any) -> bool:
        """The pass begins when the gradient of its first tensor is there: on autograd's thread."""
        state = self._recorder.rank_state
        if is_compiling() or graph_task() >= 0 or state.chunk != UNKNOWN:
            return False
        if state.prompting_thread or "modules.backward_begin" in disabled:
            return False
        tensor = first_root(tensors)
        if tensor is None:
            return False
        self._micro_batches.backward()
        site = self._recorder.site(_PASS.name, "backward")
        border = self._spans.border(tensor)
        whole = ModuleBackward(self._spans, _PASS, site, state.microbatch)
        border.begins = (whole, *border.begins)
        return True

    @guarded("modules.pass_ends")
    def _passed(self) -> None:
        self._micro_batches.passed()


def first_root(tensors: Any) -> Tensor | None:
    """First of the tensors from which a backward pass starts; None where none has a graph."""
    candidates = (tensors,) if isinstance(tensors, Tensor) else tensors
    if not isinstance(candidates, (tuple, list)):
        return None  # an iterator would be used up
    for tensor in candidates:
        if isinstance(tensor, Tensor) and tensor.grad_fn is not None:
            return tensor
    return None
