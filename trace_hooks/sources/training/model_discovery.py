"""Finds the models of a script that never calls `tracer.watch`: those that own an optimizer's
parameters.

When an optimizer is made (or, if it was made before the hooks, when it first steps), the modules
alive in this process are listed once through the garbage collector, and the outermost ones that
hold its parameters are the models. Copies (EMA), frozen teachers and losses have no parameters in
an optimizer. Optimizers with parameters of their own (Megatron's main copies, DeepSpeed) match
no module: then every outermost module in training mode counts.

A global forward hook would see models too, but makes torch.compile warn and its guards fail.
Costs: one pass over all Python objects per model, in the tens of milliseconds, outside any step's
hot path.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from trace_hooks.recording.guard import guarded
from trace_hooks.sources.alive import ByObject
from trace_hooks.sources.patching import Patches


class Discovery:
    """Calls `found(model)` once for every model being trained, until uninstalled."""

    def __init__(self, on_model: Callable[[nn.Module], None]) -> None:
        self._on_model = on_model
        self._patches = Patches()
        self._handle: Any = None
        self._known: ByObject[frozenset[int]] = ByObject()  # ids of parameters by their model
        self._searched: ByObject[None] = ByObject()  # optimizers whose models were searched

    def install(self) -> None:
        """Hook the creation and the steps of optimizers."""
        self._patches.replace(torch.optim.Optimizer, "__init__", self._around_init)
        self._handle = register_optimizer_step_pre_hook(self._before_step)

    def uninstall(self) -> None:
        """Remove the hooks."""
        self._patches.restore()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _around_init(self, original: Callable[..., None]) -> Callable[..., None]:
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self._optimizer_made(optimizer)

        __init__.__wrapped__ = original  # type: ignore[attr-defined]
        return __init__

    @guarded("modules.optimizer_made")
    def _optimizer_made(self, optimizer: Any) -> None:
        self._look(optimizer, certain=True)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            self._optimizer_steps(optimizer)

    @guarded("modules.optimizer_steps")
    def _optimizer_steps(self, optimizer: Any) -> None:
        if id(optimizer) not in self._searched:
            self._searched.put(optimizer, None)
            self._look(optimizer, certain=False)

    def _look(self, optimizer: Any, certain: bool) -> None:
        wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
        known = {number for _, ids in self._known.pairs() for number in ids}
        if wanted <= known or (known and not certain):
            return
        modules = live_modules()
        models = outermost(m for m in modules if any(id(p) in wanted for p in _parameters(m)))
        if not models and not certain:
            models = outermost(m for m in modules if m.training and _learns(m))
        for model in models:
            self._known.put(model, frozenset(id(p) for p in _parameters(model)))
            self._on_model(model)


def live_modules() -> list[nn.Module]:
    """Every nn.Module alive in this process."""
    # type(), not isinstance(): proxies answer __class__ with imports and other side effects
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    # the constructor of one may not have run
    return [module for module in modules if "_modules" in vars(module)]


def outermost(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Those of `modules` that lie in no other of them."""
    candidates = list(modules)
    inside = {id(c) for m in candidates for c in m.modules() if c is not m}
    return [m for m in candidates if id(m) not in inside]


def _learns(module: nn.Module) -> bool:
    return any(p.requires_grad for p in _parameters(module))


def _parameters(module: nn.Module) -> list[nn.Parameter]:
    """None where a class of the job has a method of its own that raises, or a module inside has not
    run its constructor.
    """
    with suppress(AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return list(module.parameters())
    return []
