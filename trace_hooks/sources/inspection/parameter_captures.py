"""Gradients and weights that somebody watches, as the optimizer gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from trace_hooks.recording.guard import guarded
from trace_hooks.sources.context import TracedModels
from trace_hooks.sources.inspection.capture_kinds import parameter_of
from trace_hooks.sources.inspection.captures import ActiveWatch, charged
from trace_hooks.sources.inspection.frame_queue import FrameQueue
from trace_hooks.sources.tensors.global_indices import GlobalPlaces, holds_first_copy
from trace_hooks.sources.tensors.tensor_names import NO_LAYER, plain_path
from trace_hooks.sources.tensors.tensor_samples import own_part

is_compiling = torch.compiler.is_compiling


class ParameterCaptures:
    """Gradients and weights of one rank. Everything runs on the training thread."""

    def __init__(self, models: TracedModels, places: GlobalPlaces, frames: FrameQueue) -> None:
        self._models = models
        self._places = places
        self._frames = frames
        self._due: Sequence[ActiveWatch] = ()
        self._coordinates: dict[str, int] = {}
        self._optimizers: set[int] = set()  # ids of those that have stepped in this step
        self._handle: Any = None

    def listen(self, wants_parameters: bool) -> None:
        """Hear of every optimizer that is about to step, or no more."""
        if wants_parameters and self._handle is None:
            self._handle = register_optimizer_step_pre_hook(self._before_optimizer)
        elif not wants_parameters and self._handle is not None:
            self._handle.remove()
            self._handle = None

    def step_begin(self, due: Sequence[ActiveWatch], coordinates: dict[str, int]) -> None:
        """These are due in the new step, on a rank at these coordinates."""
        self._due, self._coordinates = due, coordinates
        self._optimizers.clear()

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._due and not is_compiling():
            self._capture(optimizer)

    @guarded("inspection.parameters")
    @torch.no_grad()
    def _capture(self, optimizer: Any) -> None:
        """An optimizer is about to step: its gradients and weights."""
        if id(optimizer) in self._optimizers:
            return
        self._optimizers.add(id(optimizer))
        with charged(self._due):
            own = {id(p) for group in optimizer.param_groups for p in group["params"]}
            for model, stage in list(self._models.roots.values()):
                for path, parameter in model.named_parameters():
                    layer = self._places.parameter_layer(path, stage)
                    wanted = [o for o in self._due if layer != NO_LAYER and o.wants(layer)]
                    if wanted and id(parameter) in own:
                        at = {"layer": layer, "name": plain_path(path)}
                        if stage is not None:
                            at["chunk"] = stage
                        self._capture_parameter(wanted, parameter, at)

    def _capture_parameter(
        self, due: list[ActiveWatch], parameter: Tensor, at: dict[str, Any]
    ) -> None:
        if not holds_first_copy(parameter, self._coordinates):
            return
        for active in due:
            what = active.watch.what
            found = own_part(parameter if what == "weights" else parameter.grad)
            if found is not None:
                where = {**at, "watch": active.watch.id, "what": what, "shard": found[1]}
                self._frames.keep(active, None, None, parameter_of(active, found[0], where))
