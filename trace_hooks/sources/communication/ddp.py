"""What DistributedDataParallel communicates: its reducer and its broadcasts call c10d from C++.

Sees: the time at the end of a backward pass in which the reducer waits for its all-reduces, and the
broadcast of buffers before a forward, with the ends of both for the rows that come from the Flight
Recorder (an all-reduce is over when the pass ends, perhaps earlier). In a pass the reducer waits in
one of autograd's final callbacks; one of ours is queued when the pass begins and so runs before it,
and queues another that runs after it. On a GPU the reducer makes the stream wait instead of the
host: the time is that of the stream. Nothing that DDP computes or sends goes another way.
Misses: a reducer whose last gradient comes inside reentrant activation checkpointing waits in the
inner pass; there the ends are known, the waiting time is not. Verified with torch 2.13.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from trace_hooks.job.wrapped_models import DDP, instances
from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.sources.communication.c10d_source import C10dSource
from trace_hooks.sources.communication.process_groups import Group
from trace_hooks.sources.communication.seen_ends import Waiting
from trace_hooks.sources.training.passes import first_root
from trace_hooks.sources.unseen import uncompiled

_engine = torch.autograd.Variable._execution_engine
graph_task = torch._C._current_graph_task_id
is_compiling = torch.compiler.is_compiling


class DataParallelReducers(C10dSource):
    """Follows the reducers of DDP, see the module's docstring."""

    name = "ddp"

    def _replace(self, distributed: Any) -> None:
        from torch._C import _distributed_c10d as c10d

        self._models: weakref.WeakSet[Any] = weakref.WeakSet()
        self.armed: list[Group] = []  # of reducers that will reduce in the next backward pass
        self._patches.replace(c10d.Reducer, "prepare_for_backward", self._around_prepare)
        self._patches.replace(torch.autograd, "backward", self._around_backward)
        self._patches.replace(distributed, "_broadcast_coalesced", self._around_broadcast)

    def group_of(self, reducer: Any) -> Group | None:
        """Group of a DDP model's reducer."""
        for search in (False, True):
            if search:
                self._models.update(instances(DDP))
            for model in self._models:
                if getattr(model, "reducer", None) is reducer:
                    return self.log.groups.of(model.process_group)
        return None

    def _around_prepare(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_for_backward(reducer: Any, *args: Any, **kwargs: Any) -> Any:
            _arm(self, reducer)
            return original(reducer, *args, **kwargs)

        return uncompiled(original, prepare_for_backward)

    def _around_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self.armed:
                _announce(self, tensors)
            return original(tensors, *args, **kwargs)

        return uncompiled(original, backward)

    def _around_broadcast(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _broadcast_coalesced(group: Any, *args: Any, **kwargs: Any) -> Any:
            waiting = _broadcast_begins(self, group)
            result = original(group, *args, **kwargs)
            if waiting is not None:
                _waited(self, [waiting], "broadcast")
            return result

        return uncompiled(original, _broadcast_coalesced)


@guarded("ddp.arm")
def _arm(source: DataParallelReducers, reducer: Any) -> None:
    if not source.active or is_compiling():
        return
    group = source.group_of(reducer)
    if group is not None and group not in source.armed:
        source.armed.append(group)


@guarded("ddp.announce")
def _announce(source: DataParallelReducers, tensors: Any) -> None:
    """Have the pass tell when it begins: callbacks can be queued only inside it."""
    tensor = first_root(tensors)
    if tensor is None or is_compiling() or graph_task() >= 0:
        return
    groups, source.armed = source.armed, []

    def begun(_: Any) -> None:
        handle.remove()
        _pass_begins(source, groups)

    handle = tensor.register_hook(begun)


@guarded("ddp.pass_begins")
def _pass_begins(source: DataParallelReducers, groups: list[Group]) -> None:
    if source.active:
        waitings = [Waiting(source.recorder, group) for group in groups]
        _engine.queue_callback(partial(_computed, source, waitings, graph_task()))


@guarded("ddp.computed")
def _computed(source: DataParallelReducers, waitings: list[Waiting], task: int) -> None:
    """All gradients are computed; the reducer's own callback follows, then `_waited`."""
    models = source.context.models
    if models.on_gradients is not None:
        models.on_gradients(task)
    waitings[0].blocks()
    _engine.queue_callback(partial(_waited, source, waitings, "all_reduce"))


@guarded("ddp.broadcast")
def _broadcast_begins(source: DataParallelReducers, pg: Any) -> Waiting | None:
    if not source.active or "ddp.waited" in disabled:
        return None
    waiting = Waiting(source.recorder, source.log.groups.of(pg))
    waiting.blocks()
    return waiting


@guarded("ddp.waited")
def _waited(source: DataParallelReducers, waitings: list[Waiting], op: str) -> None:
    for waiting in waitings:
        site = source.recorder.site(op, waiting.group.kind)
        waiting.returned(source.log.seen_ends, site)
