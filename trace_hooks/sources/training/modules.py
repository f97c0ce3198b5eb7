"""Forward and backward spans of a model as a whole, its blocks, attention and MLP.

Sees: every call of an instrumented model and of the modules in it that `find_parts` returns, with
its micro-batch and chunk; whole backward passes (passes.py); the repeated forward of activation
checkpointing (recompute); compiled modules from outside (mode compiled). Models that were not
passed to `tracer.watch` are found when an optimizer takes their parameters. Misses: what happens
inside a compiled region, modules of a model under torch.jit.script, a second backward over one
graph. Forward hooks make nn.TransformerEncoder leave its fused path for inference (torch's own
rule); training never takes it. Costs: two registered hooks a module and, with gradients, two more
in the backward pass; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from trace_hooks.recording.guard import guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.sources.alive import ByObject
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.training.autostep import AutoSteps
from trace_hooks.sources.training.backward import BackwardSpans
from trace_hooks.sources.training.evaluation import Evaluations
from trace_hooks.sources.training.micro_batches import MicroBatches
from trace_hooks.sources.training.model_discovery import Discovery
from trace_hooks.sources.training.module_parts import Part, find_parts, is_compiled, unwrap
from trace_hooks.sources.training.part_calls import (
    AfterForward,
    BeforeForward,
    OpenCalls,
    PartCalls,
)
from trace_hooks.sources.training.passes import BackwardPasses
from trace_hooks.sources.training.scripting import allow_scripting

is_compiling = torch.compiler.is_compiling

ORIGINAL = "_trace_hooks_original"
"""Attribute of a compiled call of ours."""


class Modules(Source):
    """Spans of instrumented models, see the module's docstring."""

    name = "modules"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.models = context.models
        self.auto = AutoSteps.shared(context.steps)
        self.evaluations = Evaluations.shared(context)
        self.backward = BackwardSpans(context.recorder)
        self.open = OpenCalls()
        self._patches = Patches()
        self._handles: ByObject[tuple[Any, ...]] = ByObject()  # by module
        self._compiled: ByObject[None] = ByObject()  # modules whose compiled call is one of ours
        self._names: ByObject[str] = ByObject()  # of parts, by module
        self._roots = context.models.roots
        self._labels: ByObject[str] = ByObject()  # what tells parts of a root from those of others
        self._discovery = Discovery(self._add_model)
        self.micro_batches = MicroBatches(context.rank_state)
        self._passes = BackwardPasses(self.backward, self.micro_batches)

    def install(self) -> None:
        """Look for models and for torch.compile from now on."""
        if self.context.options.level == "steps":
            return
        self.models.running_part = self._running_part
        self.models.on_gradients = self.backward.finish
        self._patches.replace(torch, "compile", self._around_compile)
        allow_scripting()
        self._discovery.install()
        self._passes.install()

    def uninstall(self) -> None:
        """Remove every hook from the modules."""
        self.models.running_part = self.models.on_gradients = None
        self.evaluations.training_begins()
        self._discovery.uninstall()
        self._passes.uninstall()
        self._patches.restore()
        for module, _ in self._handles.pairs():
            self._unhook(id(module))
        for module, _ in self._compiled.pairs():
            original = getattr(module._compiled_call_impl, ORIGINAL, None)
            if original is not None:
                module._compiled_call_impl = original
        self._compiled.clear()
        self._names.clear()
        self._roots.clear()
        self._labels.clear()

    def instrument(self, model: Any, stage: int | None = None) -> None:
        """Hook the parts of `model`; raises TypeError where it is no nn.Module."""
        if not isinstance(model, nn.Module):
            raise TypeError(f"watch needs an nn.Module, got {type(model).__name__}")
        self._discovery.uninstall()  # the user names the models
        self._add_model(model, stage)

    def step_begin(self) -> None:
        """Forget calls that exceptions of the last step left open."""
        self.backward.step_begin()
        self.micro_batches.step_begins()
        self.evaluations.step_begins()

    def step_end(self) -> None:
        """What follows may be an evaluation."""
        self.evaluations.step_ends()

    def _running_part(self) -> tuple[Part, int | None, Mark] | None:
        for calls, _, mark, _, _ in reversed(self.open.calls):
            if not calls.is_whole and mark is not None:
                return calls.part, calls.stage, mark
        return None

    def _add_model(self, model: nn.Module, stage: int | None = None) -> None:
        if self.context.options.level == "steps":
            return
        label = self._label(model)
        self._labels.put(model, label)
        self._roots.put(model, stage)
        for part in find_parts(model, self.context.options.level):
            if id(part.module) not in self._names:
                self._names.put(part.module, part.name)
                self._hook(part, stage, label=label)
        if not is_compiled(model) and not isinstance(model, torch.jit.ScriptModule):
            whole = Part(model, type(unwrap(model)).__name__)
            if id(model) not in self._handles:
                self._hook(whole, stage, is_whole=True, label=label)

    def _label(self, model: nn.Module) -> str:
        """What tells a model from those before it: its class, with a number from the second one of
        a class on. Empty for the first model, whose parts need none.
        """
        others = [root for root, _ in self._roots.values() if root is not model]
        if not others:
            return ""
        name = _class_name(model)
        number = 1 + sum(_class_name(root) == name for root in others)
        return name if number == 1 else f"{name} {number}"

    def _hook(self, part: Part, stage: int | None, is_whole: bool = False, label: str = "") -> None:
        module, calls = part.module, PartCalls(self, part, stage, is_whole, label)
        compiled_call = module.__dict__.get("_compiled_call_impl")
        if compiled_call is not None:
            ours = _recorded_call(compiled_call, calls)
            module._compiled_call_impl = ours
            self._compiled.put(module, None)
            return
        # first in, last out: what FSDP2 and tensor parallelism do around the call lies inside
        before, after = BeforeForward(calls), AfterForward(calls)
        handles = (
            module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
            module.register_forward_hook(after, always_call=True),
        )
        self._handles.put(module, handles)

    def _unhook(self, module_id: int) -> None:
        for handle in self._handles.pop(module_id) or ():
            handle.remove()

    def _around_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)  # pickle wants it to be a function of torch
        def compile(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            compiled = args[0] if args else kwargs.get("model")
            return self._compiled_later(compiled, result) or result

        return compile

    @guarded("modules.compile")
    def _compiled_later(self, compiled: Any, result: Any) -> Any:
        """Record a model compiled after `instrument`; returns what replaces `result`, or None."""
        module = getattr(compiled, "__self__", compiled)  # module.compile() compiles a bound method
        if not isinstance(module, nn.Module):
            return None
        root = self._root_of(module)
        if root is None:
            return None
        stage, label = root[1], self._labels.get(id(root[0])) or ""
        for inside in module.modules():  # hooks would make every block compile again
            self._unhook(id(inside))
        if self.models.on_compiled is not None:
            self.models.on_compiled(module)
        name = self._names.get(id(module)) or type(module).__name__
        part = Part(module, name, compiled=True)
        if isinstance(result, nn.Module):
            self._hook(Part(result, part.name, compiled=True), stage, label=label)
            return None
        return _recorded_call(result, PartCalls(self, part, stage, label=label))

    def _root_of(self, module: nn.Module) -> tuple[nn.Module, int | None] | None:
        """The instrumented model that a module is part of, and its stage."""
        for root, stage in self._roots.values():
            if any(child is module for child in root.modules()):
                return root, stage
        return None


def _class_name(model: nn.Module) -> str:
    inside = unwrap(model)
    return type(getattr(inside, "_orig_mod", inside)).__name__


def _recorded_call(original: Callable[..., Any], calls: PartCalls) -> Callable[..., Any]:
    def compiled_call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        calls.enter(args, kwargs)
        output = None
        try:
            output = original(*args, **kwargs)
            return output
        finally:
            calls.leave(output, args)

    setattr(compiled_call, ORIGINAL, original)
    return compiled_call
