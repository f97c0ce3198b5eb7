"""Spans of optimizer steps, and through autostep.py the steps of unmodified scripts.

Sees: `step()` of every torch.optim.Optimizer, also inside the backward pass and one optimizer
inside another (ZeRO); torch's clipping of gradients before it, as work of the host. Misses:
optimizers that are not a torch.optim.Optimizer, a step compiled with torch.compile, and clipping
whose name was bound before the hooks were started or that is a framework's own (FSDP1, DeepSpeed,
Megatron). Costs: two global hooks an optimizer step and two guarded calls each time gradients are
clipped; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.training.autostep import AutoSteps

is_compiling = torch.compiler.is_compiling

CLIPPING = ("clip_grad_norm_", "clip_grad_value_")
"""Functions of torch.nn.utils."""


class Optimizers(Source):
    """Optimizer steps, see the module's docstring."""

    name = "optimizer"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.auto = AutoSteps.shared(context.steps)
        self._handles: list[Any] = []
        self._patches = Patches()
        self._open: list[tuple[int, Mark]] = []  # (id of the optimizer, mark), outermost first

    def install(self) -> None:
        """Hook all optimizers of the process, existing and later ones."""
        self.auto.switch_on(live_optimizers)
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        for name in CLIPPING:
            wrapper_of = functools.cache(partial(self._around_clipping, name))
            for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
                self._patches.replace(owner, name, wrapper_of)

    def uninstall(self) -> None:
        """Remove the hooks."""
        self.auto.switch_off()
        self._patches.restore()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _around_clipping(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """The original with a span for each call; its result and exceptions pass untouched."""

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            is_off = is_compiling() or self.recorder.is_over or "optimizer.clipped" in disabled
            mark = None if is_off else self._clipping()
            try:
                return original(*args, **kwargs)
            finally:
                if mark is not None:
                    self._clipped(name, mark)

        return wrapper

    @guarded("optimizer.clipping")
    def _clipping(self) -> Mark:
        return self.recorder.open()

    @guarded("optimizer.clipped")
    def _clipped(self, name: str, mark: Mark) -> None:
        self.recorder.close(self.recorder.site(name, "host"), mark)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            self._begin(optimizer)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            self._end(optimizer)

    @guarded("optimizer.step_begin")
    def _begin(self, optimizer: Any) -> None:
        if "optimizer.step_end" in disabled:
            return
        which = id(optimizer)
        for index, (begun, _) in enumerate(self._open):
            if begun == which:  # its last step raised, the hook after it never ran
                del self._open[index:]
                break
        if not self._open:
            self.auto.optimizer_begins(which, now(), _first_parameter(optimizer))
        self._open.append((which, self.recorder.open()))

    @guarded("optimizer.step_end")
    def _end(self, optimizer: Any) -> None:
        which = id(optimizer)
        while self._open:
            begun, mark = self._open.pop()
            if begun == which:
                site = self.recorder.site(f"{type(optimizer).__name__}.step", "optimizer")
                self.recorder.close(site, mark)
                break
        if not self._open:
            self.auto.optimizer_ended(which, now())


def _first_parameter(optimizer: Any) -> int:
    """Id of the first parameter that it will step; 0 where it has none."""
    return next((id(p) for group in optimizer.param_groups for p in group["params"][:1]), 0)


def live_optimizers() -> set[int]:
    """Ids of the optimizers alive in this process whose steps run our hooks."""
    # torch marks the class of an optimizer made, whose `step` runs hooks; wrappers only pass it on
    classes = {kind for kind in _below(torch.optim.Optimizer) if hasattr(kind.step, "hooked")}
    if not classes:
        return set()
    # a third of the time of a look at all objects
    return {id(thing) for thing in gc.get_referrers(*classes) if type(thing) in classes}


def _below(kind: type[Any]) -> set[type[Any]]:
    return {kind}.union(*map(_below, kind.__subclasses__()))
