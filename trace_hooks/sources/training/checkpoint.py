"""Checkpoints: torch.save, torch.load, and save, async_save and load of
torch.distributed.checkpoint.

Sees: the time the calling thread is blocked, as a row of `checkpoints`; a save is a span as well,
and meanwhile the rank's phase is "checkpoint", so that a silent rank is known to be saving. A save
between two steps has the number of the one that has ended. What async_save does after it has
returned is a row of its own. A save or read inside another (the distributed ones call torch.save
and torch.load) is part of the outer one; what a data loader reads with torch.load is no checkpoint.
Misses: names bound before the hooks were started (`from torch import save`), other libraries'
savers (safetensors).
Costs: two guarded calls each, and fstat of the file; see benchmarks/hook_overhead.py.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, NamedTuple

import torch

from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches, is_imported
from trace_hooks.sources.training.checkpoint_sizes import file_bytes, tensor_bytes
from trace_hooks.sources.training.evaluation import Evaluations

PHASE = "checkpoint"
ASYNC = "distributed.async_save"

DISTRIBUTED = "torch.distributed.checkpoint"
DISTRIBUTED_MODULES = {
    f"{DISTRIBUTED}.state_dict_saver": ("save", "async_save"),
    f"{DISTRIBUTED}.state_dict_loader": ("load",),
}
"""The modules that define the functions; users import them from there and from DISTRIBUTED."""

_FETCHES = "torch/utils/data/"


class _Call(NamedTuple):
    """A save or read that has begun."""

    name: str
    action: str
    begin_ns: int
    mark: Mark | None  # of a save that blocks the training thread
    phase: str  # before it
    is_before_step: bool = False  # the running step has only its batch: the save is not part of it


class Checkpoints(Source):
    """Rows of `checkpoints` and spans of saves, see the module's docstring."""

    name = "checkpoint"
    poll_s = 0.2

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._evaluations = Evaluations.shared(context)
        self._patches = Patches()
        self._distributed: set[str] = set()  # modules whose functions are wrapped
        self._is_reading = False
        self._num_behind = 0  # saves on other threads; those inside them are part of them
        self._thread = get_ident()  # the one that trains

    def install(self) -> None:
        """Wrap torch.save and torch.load, and the distributed ones where they are imported."""
        owners = (torch, torch.serialization)
        self._wrap(owners, "save", "torch.save", partial(file_bytes, 1))
        self._wrap(owners, "load", "torch.load", partial(file_bytes, 0))
        self.poll()

    def uninstall(self) -> None:
        """Restore the functions."""
        self._patches.restore()
        self._distributed.clear()

    def step_begin(self) -> None:
        """A job may have imported the distributed ones just before."""
        self._thread = get_ident()
        self.poll()

    def poll(self) -> None:
        """Wrap the distributed ones once they are imported; importing them costs seconds."""
        for defining, functions in DISTRIBUTED_MODULES.items():
            if defining in self._distributed:
                continue
            if not is_imported(DISTRIBUTED) or not is_imported(defining):
                continue
            self._distributed.add(defining)
            owners = (sys.modules[DISTRIBUTED], sys.modules[defining])
            for function in functions:
                self._wrap(owners, function, f"distributed.{function}", tensor_bytes)

    def _wrap(
        self, owners: Sequence[Any], function: str, name: str, size: Callable[..., int]
    ) -> None:
        """One wrapper for all owners: pickle wants a function to be that of its own module."""
        wrapper_of = functools.cache(partial(_recorded, self, name, size))
        for owner in owners:
            self._patches.replace(owner, function, wrapper_of)

    def begin(self, name: str) -> _Call | None:
        """A call begins; None where it is not to be recorded."""
        phase = self.rank_state.phase
        if phase == PHASE or self._is_reading:
            return None
        if get_ident() != self._thread:  # the job's own thread, or that of async_save
            if self._num_behind or name.endswith("load"):
                return None
            self._num_behind += 1
            return _Call(name, "background", now(), None, phase)
        if name.endswith("load"):
            if _is_fetch():
                return None
            self._is_reading = True
            return _Call(name, "read", now(), None, phase)
        self._num_behind += name == ASYNC  # it may end before the call returns
        is_before_step = self._evaluations.step_back()
        phase = self.rank_state.phase
        mark = self.recorder.open()
        self.rank_state.phase = PHASE
        return _Call(name, "save", mark.begin_ns, mark, phase, is_before_step)

    def end(self, call: _Call, size: Callable[[], int] | None) -> None:
        """The call has returned, or raised: then there is no `size`."""
        if call.mark is not None:
            self.rank_state.phase = call.phase
            self.recorder.close(self.recorder.site(call.name, "checkpoint"), call.mark)
        elif call.action == "read":
            self._is_reading = False
        if call.action == "background" or (call.name == ASYNC and size is None):
            self._num_behind -= 1
        end_ns = now()
        num_bytes = UNKNOWN if size is None else size()
        self.add(call.name, call.action, call.begin_ns, num_bytes, size is not None, end_ns)
        if call.is_before_step:
            self._evaluations.go_on()

    def follow(self, future: Any) -> None:
        """An asynchronous save goes on in the background until `future` is done."""
        begin_ns = now()
        future.add_done_callback(lambda done: _saved(self, begin_ns, done))

    def saved(self, begin_ns: int, future: Any) -> None:
        """That has come to an end (on the thread that saved)."""
        self._num_behind -= 1
        is_done = not future.cancelled() and future.exception() is None
        self.add(ASYNC, "background", begin_ns, UNKNOWN, is_done)

    def add(
        self,
        name: str,
        action: str,
        begin_ns: int,
        num_bytes: int,
        is_done: bool,
        end_ns: int | None = None,
    ) -> None:
        """A row for what began then and ended at `end_ns` (default: now)."""
        self.recorder.add_row(
            "checkpoints",
            ts_ns=begin_ns,
            dur_ns=(now() if end_ns is None else end_ns) - begin_ns,
            action=action,
            name=name,
            num_bytes=num_bytes,
            state="completed" if is_done else "failed",
        )


def _is_fetch() -> bool:
    """Whether a data loader of torch is among the callers."""
    frame = sys._getframe(1)
    while frame is not None:
        if _FETCHES in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _recorded(
    source: Checkpoints, name: str, size: Callable[..., int], original: Callable[..., Any]
) -> Callable[..., Any]:
    """The original with a row for each call; its result and exceptions pass untouched."""

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        is_off = source.recorder.is_over or "checkpoint.end" in disabled
        call = None if is_off else _begin(source, name)
        if call is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            _end(source, call, None)
            raise
        _end(source, call, partial(size, args, kwargs))
        if name == ASYNC:
            _follow(source, result)
        return result

    return wrapper


@guarded("checkpoint.begin")
def _begin(source: Checkpoints, name: str) -> _Call | None:
    return source.begin(name)


@guarded("checkpoint.end")
def _end(source: Checkpoints, call: _Call, size: Callable[[], int] | None) -> None:
    """`size`: of what was saved or read; None: the call raised."""
    source.end(call, size)


@guarded("checkpoint.follow")
def _follow(source: Checkpoints, result: Any) -> None:
    """Note when the background half of an asynchronous save is done."""
    source.follow(getattr(result, "upload_completion", result))


@guarded("checkpoint.saved")
def _saved(source: Checkpoints, begin_ns: int, future: Any) -> None:
    source.saved(begin_ns, future)
