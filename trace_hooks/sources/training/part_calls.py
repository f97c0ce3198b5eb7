"""The calls of one hooked module: a span of each forward, and the backward that is to come."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from threading import get_ident
from typing import Any, Protocol

import torch
from torch import Tensor

from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.training.backward import Border, ModuleBackward, graph_task
from trace_hooks.sources.training.module_parts import Part

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


class BeforeForward(Detachable):
    """Hook before a module's forward."""

    def __init__(self, calls: PartCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The module is being called."""
        if not is_compiling():
            self.calls.enter(args, kwargs)


class AfterForward(Detachable):
    """Hook after a module's forward, also one that raised."""

    def __init__(self, calls: PartCalls) -> None:
        self.calls = calls

    def __call__(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        """The call is over."""
        if not is_compiling():
            self.calls.leave(output, args)


class OpenCalls(threading.local):
    """Forward calls begun and not ended on this thread, outermost first."""

    def __init__(self) -> None:
        self.calls: list[
            tuple[PartCalls, int, Mark | None, ModuleBackward | None, Border | None]
        ] = []  # (whose, site, mark, backward to come, where it ends); no mark: in an evaluation


class Owner(Protocol):
    """What calls need of the source whose they are (modules.py)."""

    recorder: Any
    rank_state: Any
    models: Any
    auto: Any
    evaluations: Any
    micro_batches: Any
    backward: Any
    open: OpenCalls


class PartCalls:
    """Records the calls of one module."""

    def __init__(
        self,
        source: Owner,
        part: Part,
        stage: int | None,
        is_whole: bool = False,
        label: str = "",
    ) -> None:
        self.source = source
        self.part = part
        self.stage = stage
        self.is_whole = is_whole  # of the model: its backward is the pass's own span
        self.label = label  # of the model, where that is not the job's first one
        self.leaf = next(part.module.children(), None) is None
        self._sites: dict[int, tuple[int, int]] = {}  # by chunk: (forward, backward)

    def sites(self, chunk: int) -> tuple[int, int]:
        """Numbers of the forward and the backward span's site on a new chunk."""
        recorder = self.source.recorder
        mode, name = "compiled" if self.part.compiled else "eager", self.part.name
        if self.label and chunk == UNKNOWN:  # stages of one model are told apart by their chunks
            is_model = self.is_whole or name == self.label.split()[0]  # its only part is itself
            name = self.label if is_model else f"{self.label}.{name}"
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
        is_evaluation = state.evaluating_thread and state.evaluating_thread == get_ident()
        if is_grad_enabled() and not is_evaluation:
            if source.evaluations.may_begin and graph_task() < 0:
                source.evaluations.training_begins()
            if source.auto.waiting and graph_task() < 0:
                source.auto.activity(now())
            if self.is_whole and graph_task() < 0:
                source.micro_batches.forward(id(self.part.module))
        elif source.evaluations.takes(self.part.module, not source.open.calls):
            source.open.calls.append((self, UNKNOWN, None, None, None))
            return
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
        if mark is None:
            if not calls:
                source.evaluations.forward_ended()
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


def _end_at_input(
    backward: ModuleBackward, args: Iterable[Any], kwargs: dict[str, Any]
) -> Border | None:
    """Have the gradient of the first input that needs one end `backward`; None without one."""
    tensor = _first_with_grad(args)
    if tensor is None and kwargs:
        tensor = _first_with_grad(kwargs.values())
    return None if tensor is None else backward.end_at_input(tensor)


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
