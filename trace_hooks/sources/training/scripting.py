"""Keeps torch.jit.script working on modules that have hooks of ours.

torch.jit.script compiles the hooks of a module and of those inside it. It cannot compile ours, nor
what stands for them in copies, and would raise into the job: they are taken off meanwhile. Not
covered: a copy that is scripted in a process where no tracer was started.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, MutableMapping
from typing import Any

from torch import nn
from torch.jit import _recursive

from trace_hooks.recording.guard import guarded
from trace_hooks.sources.training.part_calls import Detachable

_STANDS_IN = contextlib.nullcontext.__exit__

Removed = list[tuple[MutableMapping[int, Any], dict[int, Any]]]
"""Tables of hooks of modules, and what each had in it, in order."""


def allow_scripting() -> None:
    """Take hooks off a module while torch.jit.script compiles it, from now on and for good: copies
    keep what stands for hooks when the tracer has stopped.
    """
    original = _recursive.create_script_module
    if getattr(original, "takes_hooks_off", False):
        return

    @functools.wraps(original)
    def create_script_module(nn_module: Any, *args: Any, **kwargs: Any) -> Any:
        removed = take_off(nn_module)
        try:
            return original(nn_module, *args, **kwargs)
        finally:
            if removed:
                put_back(removed)

    create_script_module.takes_hooks_off = True  # type: ignore[attr-defined]
    _recursive.create_script_module = create_script_module


@guarded("modules.take_off", stays_on=True)
def take_off(root: Any) -> Removed:
    """Remove hooks of ours from a module and those inside it."""
    removed: Removed = []
    for hooks in _tables(root):
        if any(map(_is_ours, hooks.values())):
            removed.append((hooks, dict(hooks)))
            for key in [key for key, hook in hooks.items() if _is_ours(hook)]:
                del hooks[key]
    return removed


@guarded("modules.put_back", stays_on=True)
def put_back(removed: Removed) -> None:
    """Restore the hooks that `take_off` removed, in their order."""
    for hooks, before in removed:
        added = {key: hook for key, hook in hooks.items() if key not in before}
        hooks.clear()
        hooks.update(before | added)


def _tables(root: Any) -> Iterator[MutableMapping[int, Any]]:
    for module in root.modules() if isinstance(root, nn.Module) else ():
        yield module._forward_pre_hooks
        yield module._forward_hooks


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, Detachable) or getattr(hook, "__func__", None) is _STANDS_IN
