"""Captures of gradients and weights, as the optimizer gets them."""

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
        """Hook every optimizer step, or remove the hook."""
        if wants_parameters and self._handle is None:
            self._handle = register_optimizer_step_pre_hook(self._before_optimizer)
        elif not wants_parameters and self._handle is not None:
            self._handle.remove()
            self._handle = None

    def step_begin(self, due: Sequence[ActiveWatch], coordinates: dict[str, int]) -> None:
        """Set the watches that are due in the new step, and the rank's coordinates."""
        self._due, self._coordinates = due, coordinates
        self._optimizers.clear()

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._due and not is_compiling():
            self._capture(optimizer)

    @guarded("inspection.parameters")
    @torch.no_grad()
    def _capture(self, optimizer: Any) -> None:
        """Capture gradients and weights of an optimizer that is about to step."""
        if id(optimizer) in self._optimizers:
            return
        self._optimizers.add(id(optimizer))
        with charged(self._due):
            own = {id(p) for group in optimizer.param_groups for p in group["params"]}
            for model, stage in list(self._models.roots.values()):
                for path, parameter in model.named_parameters():
                    layer = self._places.parameter_layer(path, stage)
                    wanted = [
                        active for active in self._due if layer != NO_LAYER and active.wants(layer)
                    ]
                    if wanted and id(parameter) in own:
                        columns = {"layer": layer, "name": plain_path(path)}
                        if stage is not None:
                            columns["chunk"] = stage
                        self._capture_parameter(wanted, parameter, columns)

    def _capture_parameter(
        self, due: list[ActiveWatch], parameter: Tensor, columns: dict[str, Any]
    ) -> None:
        if not holds_first_copy(parameter, self._coordinates):
            return
        for active in due:
            what = active.watch.what
            own_and_shard = own_part(parameter if what == "weights" else parameter.grad)
            if own_and_shard is not None:
                own_columns = {
                    **columns,
                    "watch": active.watch.id,
                    "what": what,
                    "shard": own_and_shard[1],
                }
                self._frames.keep(
                    active, None, None, parameter_of(active, own_and_shard[0], own_columns)
                )
