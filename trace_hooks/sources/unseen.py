"""What the hooks do that leaves no trace in the job: operations on its tensors, and calls that
torch.compile does not look into."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

from trace_hooks.recording.guard import guarded

P = ParamSpec("P")
R = TypeVar("R")

_num_modes = torch._C._len_torch_dispatch_stack
_set_grad_enabled = torch._C._set_grad_enabled  # torch.no_grad takes ten times as long


def unseen(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run without gradients and out of sight of the job's dispatch modes.

    Activation checkpointing runs a forward twice, and hooks work in only one of the two. Tensors
    saved for a backward in one of them would be missing in the other, which ends the job; selective
    checkpointing finds what it saved by counting operations, and would return wrong values.
    """

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        had_grad = torch.is_grad_enabled()
        _set_grad_enabled(False)
        try:
            if _num_modes():
                return _without_modes(function, *args, **kwargs)
            return function(*args, **kwargs)
        finally:
            _set_grad_enabled(had_grad)

    return alone


def _without_modes(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    modes = [_pop_mode() for _ in range(_num_modes())]
    try:
        return function(*args, **kwargs)
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


def uncompiled(original: Any, wrapper: Any) -> Any:
    """The wrapper of a function, which torch.compile neither traces nor compiles.

    What the wrapper calls is compiled or not, as it would be without it; but no guarded hook is,
    since hooks read clocks. Private to torch (2.6 to 2.13); without it, only tracing is prevented.
    """
    functools.update_wrapper(wrapper, original)
    wrapper.__dict__["_torchdynamo_disable"] = True
    with suppress(ImportError, AttributeError):
        from torch._C._dynamo import eval_frame

        skip, default = eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT
        for code, inside in ((wrapper.__code__, default), (_hook.__code__, skip)):
            how = eval_frame._FrameExecStrategy(skip, inside)
            eval_frame.set_code_exec_strategy(code, how)
    return wrapper


@guarded("unseen.hook")
def _hook() -> None:
    """All guarded hooks have the same code."""
