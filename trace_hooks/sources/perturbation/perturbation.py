"""Changes a model while it trains, for those who ask: noise, bit flips, offsets, ablated heads.

A perturbation (trace_hooks/protocol/perturbations.py) says what; there is none without one, nor in
a job that was not started with `allow_perturbation`. Weights are changed when a step of its window
begins and copied back, bit for bit, before the first optimizer steps: forward and backward see the
change, the optimizer does not. Activations are changed on their way out of a module
(perturbed_outputs.py), gradients pass through. It ends with its window, at the end of tracing, and
with the first error of a hook here.

Every rank changes its own layers and heads, numbered over the whole model; numbers are the same
where tensor-parallel ranks hold the same tensor, others where they hold parts.
Misses: compiled parts, outputs that are neither tensor nor tuple; weights before the first step of
a torch optimizer has been seen (nobody would take them back). Something else than a torch optimizer
that changes weights in such a step is undone; optimizers that step within the backward pass take
weights back there. Micro-batches that are not numbered (gradient accumulation by hand) get the same
noise within a step.
Costs: without a perturbation, an integer check a step; with one of weights, a copy of what it
changes.
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
    OrElse,
    PerturbedOutputs,
    Under,
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
        self._asked = PerturbationList(context, self._places)
        self._under: dict[str, Under] = {}
        self._kept: list[tuple[Tensor, Tensor]] = []  # (changed extent, what it was), in order
        self._outputs = PerturbedOutputs(context, self._places, self._under, self._failed)
        self._has_stepped = False  # a torch optimizer has
        self._handle: Any = None

    def install(self) -> None:
        """Take commands; where the job allows it, hook what takes weights back.

        Before those who look at weights: they see what the optimizer gets.
        """
        live, is_allowed = self.context.live, self.context.options.allow_perturbation
        live.commands.register(PERTURB, self._command)
        live.about["allow_perturbation"] = lambda: is_allowed
        live.beats["perturbations"] = self._asked.to_json
        if is_allowed:
            self._handle = register_optimizer_step_pre_hook(self._before_optimizer)

    def uninstall(self) -> None:
        """End what is under way."""
        self._end_all("tracing ends")
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def ask(self, value: Any) -> Ack:
        """Begin the perturbation that a JSON object is, or end one: {"end": id}. Any thread."""
        return self._asked.ask(value)

    def step_begin(self) -> None:
        """Begin and end what is due, and change weights."""
        if not self._asked.number and not self._under:
            return
        self._take_back()  # of a step that no optimizer ended
        step = self.rank_state.step
        wanted = self._asked.current()
        for name, under in list(self._under.items()):
            if wanted.get(name) is not under.asked:
                self._end(under, "somebody ended it")
        for asked in wanted.values():
            if asked.steps[1] < step:
                self._forget(asked)
        due = [one for one in wanted.values() if one.steps[0] <= step <= one.steps[1]]
        if due:
            self._outputs.coordinates = coordinates(self.rank_state.layout)
            with OrElse(self._failed):
                for asked in due:
                    self._perturb(asked)

    def step_end(self) -> None:
        """Weights are back at the latest now, and what was to last until this step is over."""
        if not self._under:
            return
        self._take_back()
        for under in list(self._under.values()):
            if under.asked.steps[1] <= self.rank_state.step:
                self._forget(under.asked)

    def _command(self, value: Any) -> str:
        """The server's; raises ValueError of one sentence."""
        ack = self.ask(value)
        if not ack.ok:
            raise ValueError(ack.text)
        return ack.text

    def _perturb(self, asked: Perturbation) -> None:
        """Do what is asked in this step."""
        under = self._under.get(asked.id)
        if under is None:
            under = self._under[asked.id] = Under(asked)
            self._mark(asked, "begins", event="begin")
            if asked.target != "weights":
                self._outputs.hook(under)
        under.steps += 1
        if asked.target == "weights":
            if self._has_stepped:
                self._perturb_weights(under)
            else:
                self._end(under, "no torch optimizer has stepped yet, nobody would take it back")

    @torch.no_grad()
    def _perturb_weights(self, under: Under) -> None:
        asked = under.asked
        for model, stage in list(self.context.models.roots.values()):
            for path, parameter in model.named_parameters():
                if self._places.parameter_layer(path, stage) != asked.layer:
                    continue
                if asked.module is not None and parameter_place(path).tensor != asked.module:
                    continue
                own = own_part(parameter)
                if own is None:
                    continue
                shard = own[1]
                if getattr(parameter, "tensor_model_parallel", False):  # Megatron's mark
                    shard = f"tp={self._outputs.coordinates.get('tp', 0)}"
                draw = draw_of(asked, self.rank_state.step, plain_path(path), shard)
                # .data: a graph that somebody has kept is not told, and goes on
                extent = extent_of(own[0].data, asked.extent, draw)
                self._kept.append((extent, extent.clone()))
                extent.copy_(changed(extent, asked, draw))
                under.tensors += 1

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():  # such a step is not seen at each run
            return
        self._has_stepped = True
        if self._kept:
            self._take_back_now()

    @guarded("perturbing.take_back", stays_on=True)
    def _take_back_now(self) -> None:
        self._take_back()

    @torch.no_grad()
    def _take_back(self) -> None:
        """Weights as they were, the last changed first."""
        while self._kept:
            extent, before = self._kept[-1]
            extent.copy_(before)
            self._kept.pop()

    def _end(self, under: Under, why: str) -> None:
        """Take one away whose weights are back."""
        self._under.pop(under.asked.id, None)
        for handle in under.handles:
            handle.remove()
        self._outputs.listen()
        self._asked.forget(under.asked)
        met = f"{under.tensors} times a tensor" if under.tensors else "nothing"
        self._mark(
            under.asked,
            f"ended, {why}: in {under.steps} steps it changed {met}",
            event="end",
            why=why,
            num_steps=under.steps,
            num_tensors=under.tensors,
        )

    def _forget(self, asked: Perturbation) -> None:
        """One is over."""
        under = self._under.get(asked.id)
        if under is not None:
            self._end(under, "its steps are over")
        self._asked.forget(asked)

    def _failed(self) -> None:
        self._end_all("it failed")

    def _end_all(self, why: str) -> None:
        """Weights first."""
        self._take_back()
        for under in list(self._under.values()):
            self._end(under, why)
        self._asked.clear()

    def _mark(self, asked: Perturbation, what: str, **told: Any) -> None:
        self.recorder.add_row(
            "marks",
            ts_ns=now(),
            kind=MARK,
            text=f"perturbation {asked.id} {what} ({asked.text})",
            args=json.dumps(asked.to_json() | told),
        )
