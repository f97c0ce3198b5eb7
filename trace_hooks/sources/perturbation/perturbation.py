"""Changes a model while it trains, on request: noise, bit flips, offsets, ablated heads.

A perturbation (trace_hooks/protocol/perturbations.py) says what; nothing changes without one, nor
in a job that was not started with `allow_perturbation`. Weights are changed when a step of its
window begins and copied back, bit for bit, before the first optimizer steps: forward and backward
see the change, the optimizer does not. Activations are changed on their way out of a module
(perturbed_outputs.py), gradients pass through. It ends with its window, at the end of tracing, and
with the first error of a hook here.

Every rank changes its own layers and heads, numbered over the whole model. Random numbers are equal
where tensor-parallel ranks hold the same tensor, and differ where they hold parts of it.
Misses: compiled parts, outputs that are neither tensor nor tuple; weights before the first step of
a torch optimizer (no hook would restore them). Changes to weights in such a step by anything but a
torch optimizer are undone; optimizers that step within the backward pass restore weights there.
Micro-batches without numbers (gradient accumulation by hand) get the same noise within a step.
Costs: without a perturbation, an integer check a step; with one of weights, a copy of the changed
values.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from trace_hooks.protocol.perturbations import MARK, PERTURB, Perturbation
from trace_hooks.protocol.watches import Ack
from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import guarded
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.perturbation.perturbation_list import PerturbationList
from trace_hooks.sources.perturbation.perturbed_outputs import (
    ActivePerturbation,
    OrElse,
    PerturbedOutputs,
    draw_of,
)
from trace_hooks.sources.perturbation.perturbed_values import changed, extent_of
from trace_hooks.sources.tensors.global_indices import GlobalPlaces, coordinates
from trace_hooks.sources.tensors.tensor_names import parameter_place, plain_path
from trace_hooks.sources.tensors.tensor_samples import own_part

is_compiling = torch.compiler.is_compiling


class Perturbing(Source):
    """Perturbations of watched models, see the module's docstring."""

    name = "perturbing"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._places = GlobalPlaces(context)
        self._requested = PerturbationList(context, self._places)
        self._active: dict[str, ActivePerturbation] = {}
        self._kept: list[tuple[Tensor, Tensor]] = []  # (changed extent, values before), in order
        self._outputs = PerturbedOutputs(context, self._places, self._active, self._failed)
        self._has_stepped = False  # a torch optimizer has
        self._handle: Any = None

    def install(self) -> None:
        """Register the command; where the job allows it, hook the restoring of weights.

        Installed before the sources that read weights, so that they see what the optimizer gets.
        """
        live, is_allowed = self.context.live, self.context.options.allow_perturbation
        live.commands.register(PERTURB, self._command)
        live.about["allow_perturbation"] = lambda: is_allowed
        live.beats["perturbations"] = self._requested.to_json
        if is_allowed:
            self._handle = register_optimizer_step_pre_hook(self._before_optimizer)

    def uninstall(self) -> None:
        """End what is in progress."""
        self._end_all("tracing ends")
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def ask(self, value: Any) -> Ack:
        """Begin the perturbation in a JSON object, or end one: {"end": id}. Any thread."""
        return self._requested.ask(value)

    def step_begin(self) -> None:
        """Begin and end the perturbations that are due, and change weights."""
        if not self._requested.number and not self._active:
            return
        self._restore()  # after a step that no optimizer ended
        step = self.rank_state.step
        wanted = self._requested.current()
        for name, active in list(self._active.items()):
            if wanted.get(name) is not active.request:
                self._end(active, "somebody ended it")
        for request in wanted.values():
            if request.steps[1] < step:
                self._forget(request)
        due = [
            request for request in wanted.values() if request.steps[0] <= step <= request.steps[1]
        ]
        if due:
            self._outputs.coordinates = coordinates(self.rank_state.layout)
            with OrElse(self._failed):
                for request in due:
                    self._perturb(request)

    def step_end(self) -> None:
        """Restore weights, if no optimizer step has, and end what was to last until this step."""
        if not self._active:
            return
        self._restore()
        for active in list(self._active.values()):
            if active.request.steps[1] <= self.rank_state.step:
                self._forget(active.request)

    def _command(self, value: Any) -> str:
        """Carry out the server's command; raises ValueError of one sentence."""
        ack = self.ask(value)
        if not ack.ok:
            raise ValueError(ack.text)
        return ack.text

    def _perturb(self, request: Perturbation) -> None:
        """Apply a perturbation to this step."""
        active = self._active.get(request.id)
        if active is None:
            active = self._active[request.id] = ActivePerturbation(request)
            self._mark(request, "begins", event="begin")
            if request.target != "weights":
                self._outputs.hook(active)
        active.steps += 1
        if request.target == "weights":
            if self._has_stepped:
                self._perturb_weights(active)
            else:
                self._end(
                    active,
                    "no torch optimizer has stepped yet, so nothing would restore the weights; "
                    "begin after the first step",
                )

    @torch.no_grad()
    def _perturb_weights(self, active: ActivePerturbation) -> None:
        request = active.request
        for model, stage in list(self.context.models.roots.values()):
            for path, parameter in model.named_parameters():
                if self._places.parameter_layer(path, stage) != request.layer:
                    continue
                if request.module is not None and parameter_place(path).tensor != request.module:
                    continue
                own = own_part(parameter)
                if own is None:
                    continue
                shard = own[1]
                if getattr(parameter, "tensor_model_parallel", False):  # Megatron's mark
                    shard = f"tp={self._outputs.coordinates.get('tp', 0)}"
                draw = draw_of(request, self.rank_state.step, plain_path(path), shard)
                # .data: autograd does not notice, so a kept graph still works
                extent = extent_of(own[0].data, request.extent, draw)
                self._kept.append((extent, extent.clone()))
                extent.copy_(changed(extent, request, draw))
                active.tensors += 1

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():  # a compiled step does not call hooks at each run
            return
        self._has_stepped = True
        if self._kept:
            self._guarded_restore()

    @guarded("perturbing.take_back", stays_on=True)
    def _guarded_restore(self) -> None:
        self._restore()

    @torch.no_grad()
    def _restore(self) -> None:
        """Restore the weights, the last changed first."""
        while self._kept:
            extent, before = self._kept[-1]
            extent.copy_(before)
            self._kept.pop()

    def _end(self, active: ActivePerturbation, why: str) -> None:
        """End one whose weights are restored."""
        self._active.pop(active.request.id, None)
        for handle in active.handles:
            handle.remove()
        self._outputs.listen()
        self._requested.forget(active.request)
        met = f"tensors {active.tensors} times" if active.tensors else "nothing"
        self._mark(
            active.request,
            f"ended, {why}: it changed {met} in {active.steps} steps",
            event="end",
            why=why,
            num_steps=active.steps,
            num_tensors=active.tensors,
        )

    def _forget(self, request: Perturbation) -> None:
        """End one whose steps are over."""
        active = self._active.get(request.id)
        if active is not None:
            self._end(active, "its last step is done")
        self._requested.forget(request)

    def _failed(self) -> None:
        self._end_all("it failed")

    def _end_all(self, why: str) -> None:
        """Restore weights, then end all."""
        self._restore()
        for active in list(self._active.values()):
            self._end(active, why)
        self._requested.clear()

    def _mark(self, request: Perturbation, what: str, **args: Any) -> None:
        self.recorder.add_row(
            "marks",
            ts_ns=now(),
            kind=MARK,
            text=f"perturbation {request.id} {what} ({request.text})",
            args=json.dumps(request.to_json() | args),
        )
