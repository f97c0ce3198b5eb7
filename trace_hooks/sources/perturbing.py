"""Changes a model while it trains, for those who ask: noise, bit flips, offsets, ablated heads.

A perturbation (trace_hooks/perturbations.py) says what; there is none without one, nor in a job
that was not started with `allow_perturbation`. Weights are changed when a step of its window begins
and copied back, bit for bit, before the first optimizer steps: forward and backward see the change,
the optimizer does not. Activations are changed on their way out of a module, gradients pass
through. It ends with its window, at the end of tracing, and with the first error of a hook here.

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

from trace_hooks.attention import CALLS, AttentionCall
from trace_hooks.clock import now
from trace_hooks.guard import guarded
from trace_hooks.perturbations import MARK, PERTURB, Perturbation
from trace_hooks.recorder import Recorder
from trace_hooks.sources.base import Source, Steps
from trace_hooks.sources.global_places import GlobalPlaces, coordinates, tensor_parallel
from trace_hooks.sources.modules import Detachable
from trace_hooks.sources.parts import Part, find_parts
from trace_hooks.sources.perturbation_list import PerturbationList
from trace_hooks.sources.perturbed_values import (
    Draw,
    changed,
    extent_of,
    on_first_tensor,
    on_own_part,
    perturbed,
    perturbed_head,
)
from trace_hooks.sources.tensor_names import output_place, parameter_place, plain_path
from trace_hooks.sources.tensor_samples import own_part
from trace_hooks.watches import Ack

is_compiling = torch.compiler.is_compiling


class _Under:
    """A perturbation under way."""

    def __init__(self, asked: Perturbation) -> None:
        self.asked = asked
        self.handles: list[Any] = []
        self.steps = 0
        self.tensors = 0  # changed so far


class _AfterForward(Detachable):
    """Hook of a module whose output is changed."""

    def __init__(self, source: Perturbing, under: _Under, part: Part, stage: int | None) -> None:
        self.source, self.under, self.part, self.stage = source, under, part, stage

    def __call__(self, module: Any, args: Any, output: Any) -> Any:
        if module.training and not is_compiling():
            return self.source.output(self.under, self.part, self.stage, output)
        return None


class Perturbing(Source):
    """Perturbations of watched models, see the module's docstring."""

    name = "perturbing"

    def __init__(self, recorder: Recorder, steps: Steps, level: str = "layers") -> None:
        super().__init__(recorder, steps, level)
        self._places = GlobalPlaces(recorder)
        self._asked = PerturbationList(recorder, self._places)
        self._under: dict[str, _Under] = {}
        self._kept: list[tuple[Tensor, Tensor]] = []  # (changed extent, what it was), in order
        self._lengths: dict[tuple[int | None, int], int] = {}  # tokens by (stage, layer)
        self._coordinates: dict[str, int] = {}
        self._has_stepped = False  # a torch optimizer has
        self._handle: Any = None

    def install(self) -> None:
        """Take commands; where the job allows it, hook what takes weights back.

        Before those who look at weights: they see what the optimizer gets.
        """
        self.recorder.live.commands.register(PERTURB, self._command)
        self.recorder.live.about["allow_perturbation"] = lambda: self.recorder.allow_perturbation
        self.recorder.live.beats["perturbations"] = self._asked.to_json
        if self.recorder.allow_perturbation:
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
        step = self.recorder.step
        wanted = self._asked.current()
        for name, under in list(self._under.items()):
            if wanted.get(name) is not under.asked:
                self._end(under, "somebody ended it")
        for asked in wanted.values():
            if asked.steps[1] < step:
                self._forget(asked)
        due = [one for one in wanted.values() if one.steps[0] <= step <= one.steps[1]]
        if due:
            self._coordinates = coordinates(self.recorder)
            with _Or(self._end_all, "it failed"):
                for asked in due:
                    self._perturb(asked)

    def step_end(self) -> None:
        """Weights are back at the latest now, and what was to last until this step is over."""
        if not self._under:
            return
        self._take_back()
        for under in list(self._under.values()):
            if under.asked.steps[1] <= self.recorder.step:
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
            under = self._under[asked.id] = _Under(asked)
            self._mark(asked, "begins", event="begin")
            if asked.target != "weights":
                self._hook(under)
        under.steps += 1
        if asked.target == "weights":
            if self._has_stepped:
                self._perturb_weights(under)
            else:
                self._end(under, "no torch optimizer has stepped yet, nobody would take it back")

    @torch.no_grad()
    def _perturb_weights(self, under: _Under) -> None:
        asked = under.asked
        for model, stage in list(self.recorder.models.values()):
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
                    shard = f"tp={self._coordinates.get('tp', 0)}"
                draw = self._draw(asked, plain_path(path), shard)
                # .data: a graph that somebody has kept is not told, and goes on
                extent = extent_of(own[0].data, asked.extent, draw)
                self._kept.append((extent, extent.clone()))
                extent.copy_(changed(extent, asked, draw))
                under.tensors += 1

    def _draw(self, asked: Perturbation, *names: object) -> Draw:
        return Draw(asked.seed, asked.kind, self.recorder.step, asked.layer, *names)

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

    def _hook(self, under: _Under) -> None:
        """Have the outputs that are asked for changed."""
        asked = under.asked
        if asked.head is not None:
            self._listen()
            return
        whats = ("residual",) if asked.target == "residual" else ("attention", "mlp")
        whats = whats if asked.module is None else (asked.module,)
        for model, stage in list(self.recorder.models.values()):
            for part in find_parts(model):
                what = output_place(part.name, type(part.module).__name__).tensor
                if what not in whats or self._places.layer(part, stage) != asked.layer:
                    continue
                if not part.compiled:
                    hook = _AfterForward(self, under, part, stage)
                    # before those who look at the output, and before FSDP and DDP
                    handle = part.module.register_forward_hook(hook, prepend=True)
                    under.handles.append(handle)
        self._listen()

    def _listen(self) -> None:
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
    def output(self, under: _Under, part: Part, stage: int | None, output: Any) -> Any:
        """A module has returned `output`: what it returns instead, None for the same."""

        def change(tensor: Tensor, shard: str) -> Tensor:
            draw = self._draw(
                under.asked, part.name, shard or self._rows_here(part, stage, tensor),
                self.recorder.microbatch, self._others(),
            )  # fmt: skip
            return perturbed(tensor, under.asked, draw)

        with _Or(self._end_all, "it failed"):
            found = on_first_tensor(output, lambda tensor: on_own_part(tensor, change))
            under.tensors += found is not None
            return found

    def _rows_here(self, part: Part, stage: int | None, tensor: Tensor) -> str:
        """Which part of a plain tensor this is: of sequence parallelism, or whole."""
        block = part if part.block is None else part.block
        index, size = tensor_parallel(block.module, self.recorder)
        length = self._lengths.get((stage, self._places.layer(part, stage)))
        rows = tensor.shape[-2] if tensor.dim() > 1 else 1
        return f"tp={index}" if size > 1 and rows * size == length else "whole"

    def _others(self) -> list[tuple[str, int]]:
        """Coordinates of a rank whose activations are of other data."""
        return [(axis, at) for axis, at in self._coordinates.items() if axis not in ("tp", "pp")]

    @guarded("perturbing.attention")
    def _attention(self, call: AttentionCall, output: Any, dim: int) -> Any:
        """Attention has returned `output`, its heads along `dim`; None for the same."""
        place = self._places.attention(call)
        if place is None or not place.part.module.training:
            return None
        found = None
        with _Or(self._end_all, "it failed"):
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

    def _end(self, under: _Under, why: str) -> None:
        """Take one away whose weights are back."""
        self._under.pop(under.asked.id, None)
        for handle in under.handles:
            handle.remove()
        self._listen()
        self._asked.forget(under.asked)
        met = f"{under.tensors} times a tensor" if under.tensors else "nothing"
        self._mark(
            under.asked, f"ended, {why}: in {under.steps} steps it changed {met}", event="end",
            why=why, num_steps=under.steps, num_tensors=under.tensors,
        )  # fmt: skip

    def _forget(self, asked: Perturbation) -> None:
        """One is over."""
        under = self._under.get(asked.id)
        if under is not None:
            self._end(under, "its steps are over")
        self._asked.forget(asked)

    def _end_all(self, why: str) -> None:
        """Weights first."""
        self._take_back()
        for under in list(self._under.values()):
            self._end(under, why)
        self._asked.clear()

    def _mark(self, asked: Perturbation, what: str, **told: Any) -> None:
        self.recorder.add_row(
            "marks", ts_ns=now(), kind=MARK,
            text=f"perturbation {asked.id} {what} ({asked.text})",
            args=json.dumps(asked.to_json() | told),
        )  # fmt: skip


class _Or:
    """Calls something where what is inside raises; the error goes on, to the hook's boundary."""

    def __init__(self, call: Any, *args: Any) -> None:
        self._call, self._args = call, args

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._call(*self._args)
