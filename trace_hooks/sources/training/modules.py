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

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.training.autostep import AutoSteps
from trace_hooks.sources.training.backward import BackwardSpans, Border, ModuleBackward, graph_task
from trace_hooks.sources.training.micro_batches import MicroBatches
from trace_hooks.sources.training.model_discovery import Discovery
from trace_hooks.sources.training.module_parts import Part, find_parts, is_compiled, unwrap
from trace_hooks.sources.training.passes import BackwardPasses

is_compiling = torch.compiler.is_compiling
is_grad_enabled = torch.is_grad_enabled

_inert = contextlib.nullcontext().__exit__
"""Takes any arguments, returns None: it stands for our hooks in copies, which import nothing of
ours."""


class Detachable:
    """A hook that does nothing in a copied or unpickled module."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _inert

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class _BeforeForward(Detachable):
    def __init__(self, calls: PartCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not is_compiling():
            self.calls.enter(args, kwargs)


class _AfterForward(Detachable):
    def __init__(self, calls: PartCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        if not is_compiling():
            self.calls.leave(output, args)


class _Open(threading.local):
    """Forward calls begun and not ended on this thread, outermost first."""

    def __init__(self) -> None:
        self.calls: list[
            tuple[PartCalls, int, Mark, ModuleBackward | None, Border | None]
        ] = []  # (whose, site, mark, backward to come, where it ends)


class PartCalls:
    """Records the calls of one module."""

    def __init__(
        self, source: Modules, part: Part, stage: int | None, is_whole: bool = False
    ) -> None:
        self.source = source
        self.part = part
        self.stage = stage
        self.is_whole = is_whole  # of the model: its backward is the pass's own span
        self.leaf = next(part.module.children(), None) is None
        self._sites: dict[int, tuple[int, int]] = {}  # by chunk: (forward, backward)

    def sites(self, chunk: int) -> tuple[int, int]:
        """Numbers of the forward and the backward span's site on a new chunk."""
        recorder = self.source.recorder
        mode, name = "compiled" if self.part.compiled else "eager", self.part.name
        sites = self._sites[chunk] = (
            recorder.site(name, "forward", mode, chunk),
            recorder.site(name, "backward", mode, chunk),
        )
        return sites

    @guarded("modules.forward_begin")
    def enter(self, args: Iterable[Any], kwargs: dict[str, Any]) -> None:
        """The module is being called."""
        if "modules.forward_end" in disabled:
            return
        source, stage = self.source, self.stage
        state = source.rank_state
        if is_grad_enabled():
            if source.auto.waiting and graph_task() < 0:
                source.auto.activity(now())
            if self.is_whole and graph_task() < 0:
                source.micro_batches.forward(id(self.part.module))
        chunk = state.chunk if stage is None else stage
        site, backward_site = self._sites.get(chunk) or self.sites(chunk)
        backward = border = None
        if is_grad_enabled() and not self.is_whole:
            backward = ModuleBackward(source.backward, self.part, backward_site, state.microbatch)
            border = _end_at_input(backward, args, kwargs)
        source.open.calls.append((self, site, source.recorder.open(), backward, border))

    @guarded("modules.forward_end")
    def leave(self, output: Any, args: Any) -> None:
        """The call with `args` has returned `output`, or None because it raised."""
        source = self.source
        calls = source.open.calls
        while calls:
            whose, site, mark, backward, border = calls.pop()
            if whose is self:
                break
        else:
            return
        state, models = source.rank_state, source.models
        if state.prompting_thread:
            mark.thread.depth = mark.depth
            return
        source.recorder.close(site, mark, state.microbatch, graph_task() >= 0)
        if backward is None:
            return
        if models.on_output is not None:
            chunk = state.chunk if self.stage is None else self.stage
            models.on_output(self.part, chunk, output)
        if models.on_content is not None:
            models.on_content(self.part, self.stage, output, args)
        tensor = _first_with_grad((output,))
        will_begin = tensor is not None and backward.begin_at_output(
            tensor, self.leaf and border is None
        )
        if border is not None and not will_begin:
            border.drop(backward)


class Modules(Source):
    """Spans of instrumented models, see the module's docstring."""

    name = "modules"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.models = context.models
        self.auto = AutoSteps.shared(context.steps)
        self.backward = BackwardSpans(context.recorder)
        self.open = _Open()
        self._patches = Patches()
        self._handles: dict[int, tuple[Any, ...]] = {}  # by id of the module
        self._compiled: list[tuple[nn.Module, Any, Any]] = []  # (module, original, ours)
        self._parts: dict[int, Part] = {}
        self._roots = context.models.roots
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
        self._discovery.install()
        self._passes.install()

    def uninstall(self) -> None:
        """Remove every hook from the modules."""
        self.models.running_part = self.models.on_gradients = None
        self._discovery.uninstall()
        self._passes.uninstall()
        self._patches.restore()
        for module_id in list(self._handles):
            self._unhook(module_id)
        for module, original, ours in self._compiled:
            if module._compiled_call_impl is ours:
                module._compiled_call_impl = original
        self._compiled.clear()
        self._parts.clear()
        self._roots.clear()

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

    def _running_part(self) -> tuple[Part, int | None, Mark] | None:
        for calls, _, mark, _, _ in reversed(self.open.calls):
            if not calls.is_whole:
                return calls.part, calls.stage, mark
        return None

    def _add_model(self, model: nn.Module, stage: int | None = None) -> None:
        if self.context.options.level == "steps":
            return
        self._roots[id(model)] = (model, stage)
        for part in find_parts(model, self.context.options.level):
            if id(part.module) not in self._parts:
                self._parts[id(part.module)] = part
                self._hook(part, stage)
        if not is_compiled(model) and not isinstance(model, torch.jit.ScriptModule):
            whole = Part(model, type(unwrap(model)).__name__)
            if id(model) not in self._handles:
                self._hook(whole, stage, is_whole=True)

    def _hook(self, part: Part, stage: int | None, is_whole: bool = False) -> None:
        module, calls = part.module, PartCalls(self, part, stage, is_whole)
        compiled_call = module.__dict__.get("_compiled_call_impl")
        if compiled_call is not None:
            ours = _recorded_call(compiled_call, calls)
            module._compiled_call_impl = ours
            self._compiled.append((module, compiled_call, ours))
            return
        # first in, last out: what FSDP2 and tensor parallelism do around the call lies inside
        self._handles[id(module)] = (
            module.register_forward_pre_hook(_BeforeForward(calls), prepend=True, with_kwargs=True),
            module.register_forward_hook(_AfterForward(calls), always_call=True),
        )

    def _unhook(self, module_id: int) -> None:
        for handle in self._handles.pop(module_id, ()):
            handle.remove()

    def _around_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            compiled = args[0] if args else kwargs.get("model")
            return self._compiled_later(compiled, result) or result

        compile.__wrapped__ = original  # type: ignore[attr-defined]
        return compile

    @guarded("modules.compile")
    def _compiled_later(self, compiled: Any, result: Any) -> Any:
        """Record a model compiled after `instrument`; returns what replaces `result`, or None."""
        module = getattr(compiled, "__self__", compiled)  # module.compile() compiles a bound method
        if not isinstance(module, nn.Module):
            return None
        stage = self._stage_of(module)
        if stage is _NOT_INSTRUMENTED:
            return None
        for inside in module.modules():  # hooks would make every block compile again
            self._unhook(id(inside))
        if self.models.on_compiled is not None:
            self.models.on_compiled(module)
        known = self._parts.get(id(module))
        part = Part(module, known.name if known else type(module).__name__, compiled=True)
        if isinstance(result, nn.Module):
            self._hook(Part(result, part.name, compiled=True), stage)
            return None
        return _recorded_call(result, PartCalls(self, part, stage))

    def _stage_of(self, module: nn.Module) -> Any:
        for root, stage in self._roots.values():
            if any(child is module for child in root.modules()):
                return stage
        return _NOT_INSTRUMENTED


_NOT_INSTRUMENTED = object()


def _end_at_input(
    backward: ModuleBackward, args: Iterable[Any], kwargs: dict[str, Any]
) -> Border | None:
    """Have the gradient of the first input that needs one end `backward`; None without one."""
    tensor = _first_with_grad(args)
    if tensor is None and kwargs:
        tensor = _first_with_grad(kwargs.values())
    return None if tensor is None else backward.end_at_input(tensor)


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

    return compiled_call


def _first_with_grad(values: Iterable[Any]) -> Tensor | None:
    """First tensor that requires a gradient, looking into tuples, lists and dicts once."""
    for value in values:
        if isinstance(value, Tensor):
            if value.requires_grad:
                return value
        elif isinstance(value, (tuple, list)):
            for inner in value:
                if isinstance(inner, Tensor) and inner.requires_grad:
                    return inner
        elif isinstance(value, dict):
            for inner in value.values():
                if isinstance(inner, Tensor) and inner.requires_grad:
                    return inner
    return None
