"""Loads of experts: what the routers of each layer chose, one row a step.

Sees: the routers that routers.py knows and those given to `tracer.router`, in forwards that record
gradients, while a step runs. A recomputed forward (activation checkpointing) counts only where the
first one recorded no gradients (use_reentrant=True). Misses: routers inside compiled regions and
CUDA graphs (a mark says so), choices that the job overwrites later in the step, the experts of
Hugging Face's own expert parallelism, auxiliary losses other than those that `tracer.router` was
told of. The bias is the one at the end of the step, which the next one adds; none is recorded where
FSDP shards it. Costs: one hook a call, which keeps the choices
(MAX_KEPT values at most) until the step ends; then a few operations on their device count those of
all layers, and one copy, which nothing waits for, brings the counts to the host. The drain thread
does the rest. See benchmarks/event_costs.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count as count_from
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor, nn

from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import attempt
from trace_hooks.sources.alive import Roots
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.experts.loads import (
    Call,
    Counted,
    StepLoads,
    Which,
    by_key,
    count,
    stacked,
)
from trace_hooks.sources.experts.missed import COMPILED, NOWHERE, Missed, has_compiled
from trace_hooks.sources.experts.router_calls import RouterCalls
from trace_hooks.sources.experts.routers import Router, find_routers, no_bias
from trace_hooks.sources.tensors.global_indices import GlobalPlaces
from trace_hooks.sources.tensors.tensor_names import plain_path
from trace_hooks.sources.tensors.tensor_samples import (
    MAX_COPIES,
    POLL_S,
    CopyQueue,
    is_capturing,
)
from trace_hooks.sources.training.module_parts import Part, is_compiled
from trace_hooks.sources.unseen import unseen

MAX_CALLS = 1 << 14
"""Most calls of routers that are counted in a step; further ones are dropped."""


class Experts(Source):
    """Loads of experts, see the module's docstring."""

    name = "experts"
    poll_s = POLL_S

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.in_step = False
        self.kept: list[Call] = []
        self.num_kept = 0
        self._counted: list[Counted] = []
        self._num_counted = 0  # calls
        self._losses: list[tuple[Which, Tensor]] = []
        # by id of the module, whose hook holds the value: a model that the job drops is freed
        self._routers: WeakValueDictionary[int, RouterCalls] = WeakValueDictionary()
        self._next_number = count_from(0)
        self.missed = Missed(context.recorder)
        self._models = Roots()
        self._places = GlobalPlaces(context)
        self._copies: CopyQueue[StepLoads] = CopyQueue(context.recorder)

    def install(self) -> None:
        """Hear of modules that are compiled."""
        self.context.models.on_compiled = self._compiled

    def uninstall(self) -> None:
        """Remove the hooks, and write what is there."""
        self.context.models.on_compiled = None
        followed = list(self._routers.values())
        for calls in followed:
            calls.handle.remove()
        self.step_end()
        self._copies.wait_for_last(self.poll)
        self._routers.clear()
        self._models.clear()

    def instrument(self, model: Any, stage: int | None = None) -> None:
        """Hook the routers of a user's model that are of known frameworks."""
        if not isinstance(model, nn.Module) or id(model) in self._models:
            return
        if self.context.options.level == "steps":
            return
        self._models.put(model)
        found = list(find_routers(model))
        for path, router, compiled in found:
            if not compiled and id(router.module) not in self._routers:
                self._follow(RouterCalls(self, router, path, stage))
        self._miss([path for path, _, compiled in found if compiled])

    def add(self, router: Router) -> None:
        """Follow a router that the user describes, in place of what is known about it."""
        known = self._routers.pop(id(router.module), None)
        if known is not None:
            known.handle.remove()
        path, stage = ("", None) if known is None else (known.path, known.stage)
        if is_compiled(router.module):
            self._miss([type(router.module).__name__])
            return
        calls = RouterCalls(self, router, path, stage)
        calls.number = -1 if known is None else known.number
        self._follow(calls)

    def locate(self, calls: RouterCalls) -> None:
        """Find where in its model a router is."""
        router = calls.router.module
        models = [*self.context.models.roots.values(), *self._models.values()]
        for model, stage in models if not calls.path else ():
            for path, module in model.named_modules():
                if module is router:
                    calls.path, calls.stage = path, stage
                    break
        if not calls.path:  # the number: unlike other routers of its class
            calls.path = f"{calls.name} {calls.number}"
            self.missed.add(NOWHERE, [calls.path])
        calls.layer = self._places.layer(Part(router, calls.path), calls.stage)

    def step_begin(self) -> None:
        """Forget what was chosen outside of steps; hook models that were found since."""
        self._forget()
        self.in_step = True
        roots = self.context.models.roots
        if len(roots) > len(self._models):
            for model, stage in roots.values():
                self.instrument(model, stage)

    def step_end(self) -> None:
        """Count what is not counted, and begin to copy the counts to the host."""
        was_in_step, self.in_step = self.in_step, False
        self.count()
        self._send()
        if was_in_step:
            self._look_for_compiled()
        self.missed.write()
        self._forget()

    def poll(self) -> None:
        """Make rows of what has arrived (drain thread)."""
        for loads in self._copies.arrived():
            self._publish(loads)

    @unseen
    def count(self) -> None:
        """Count the choices that are kept, but for those that the job has overwritten or freed."""
        kept, self.kept, self.num_kept = self.kept, [], 0
        unchanged = []
        if not is_capturing():
            unchanged = [
                call for call in kept if call[2]._version == call[3] and _is_there(call[2])
            ]
            unchanged = unchanged[: MAX_CALLS - self._num_counted]
        self.recorder.dropped += len(kept) - len(unchanged)
        self._num_counted += len(unchanged)
        self._counted += count(unchanged)
        self._losses += [(call[:2], call[5]) for call in unchanged if call[5] is not None]

    @unseen
    def _send(self) -> None:
        if not self._counted:
            return
        if len(self._copies) >= MAX_COPIES or is_capturing():
            self.recorder.dropped += 1
            return
        routers = {router for one in self._counted for router, _ in one.calls}
        read = [
            (calls, attempt("experts.bias", calls.bias, switch_off=False))
            for calls in routers
            if calls.router.bias is not no_bias
        ]
        biases = stacked((calls, bias) for calls, bias in read if bias is not None)
        losses = stacked(self._losses)
        self._copies.add(StepLoads(self.rank_state.step, now(), self._counted, biases, losses))

    def _forget(self) -> None:
        self.kept, self.num_kept = [], 0
        self._counted, self._num_counted, self._losses = [], 0, []
        for calls in self._routers.values():
            calls.has_begun = False

    def _publish(self, loads: StepLoads) -> None:
        biases = by_key(loads.biases)
        for calls, load in loads.loads().items():
            self.recorder.add_row(
                "expert_load",
                step=loads.step,
                ts_ns=loads.ts_ns,
                chunk=calls.chunk,
                layer=calls.layer,
                name=plain_path(calls.path),
                top_k=load.top_k,
                batch_tokens=load.batch_tokens,
                tokens=load.tokens.tolist(),
                dropped=load.dropped,
                first_expert=calls.router.first_expert,
                local_experts=calls.router.local_experts,
                bias=biases[calls].tolist() if calls in biases else None,
                aux_loss=sum(load.losses) / len(load.losses) if load.losses else None,
            )

    def _follow(self, calls: RouterCalls) -> None:
        if calls.number < 0:
            calls.number = next(self._next_number)
        calls.hook()
        self._routers[id(calls.router.module)] = calls

    def _compiled(self, module: nn.Module) -> None:
        """A module is about to be compiled: hooks inside would make it compile again."""
        inside = {id(child) for child in module.modules()}
        missed = {key: calls for key, calls in self._routers.items() if key in inside}
        for key, calls in missed.items():
            calls.handle.remove()
            del self._routers[key]
        self._miss([calls.name for calls in missed.values()])

    def _miss(self, paths: Sequence[str]) -> None:
        if paths:
            text = (
                f"the experts of {len(paths)} compiled routers are not counted, such as {paths[0]}"
            )
            self.recorder.add_row("marks", ts_ns=now(), kind="note", text=text, args=None)

    def _look_for_compiled(self) -> None:
        """Code that torch.compile has made calls no hooks, and must not differ with them: all that
        shows is that a router was not called.
        """
        step = self.rank_state.step
        silent = [
            calls
            for calls in self._routers.values()
            if calls.last_step != step and not calls.is_noted
        ]
        if silent and has_compiled():
            for calls in silent:
                calls.is_noted = True
                self.locate(calls)
            self.missed.add(COMPILED, [plain_path(calls.name) for calls in silent])


def _is_there(chosen: Tensor) -> bool:
    return chosen.untyped_storage().nbytes() > 0 or not chosen.numel()
