"""Collectives and point-to-point messages of torch.distributed, seen where Python enters c10d.

Every function of torch.distributed (and FSDP2, pipelining, Megatron) ends in a method of
ProcessGroup and, where it blocks, in Work.wait. Wrapping these two classes sees each instance once,
also through names imported long before, and leaves the functions' identity alone, which P2POp and
torch.compile compare. Not seen: C++ callers (DDP's reducer, functional operators, compiled code);
`functional` and `flight_recorder` are for those. Verified with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.communication.c10d_source import C10dSource
from trace_hooks.sources.communication.collective_log import (
    NOTHING,
    P2P,
    Instance,
    Payload,
    payload_of,
)


class Method(NamedTuple):
    """How to read a call of one ProcessGroup method."""

    op: str
    input_at: int  # position of this member's input, -1: none; scatter: of its output


METHODS = {
    "allreduce": Method("all_reduce", 0),
    "allreduce_coalesced": Method("all_reduce", 0),
    "broadcast": Method("broadcast", 0),
    "reduce": Method("reduce", 0),
    "allgather": Method("all_gather", 1),
    "all_gather_single": Method("all_gather", 1),
    "_allgather_base": Method("all_gather", 1),
    "allgather_coalesced": Method("all_gather", 1),
    "all_gather_single_coalesced": Method("all_gather", 1),
    "allgather_into_tensor_coalesced": Method("all_gather", 1),
    "reduce_scatter": Method("reduce_scatter", 1),
    "reduce_scatter_single": Method("reduce_scatter", 1),
    "_reduce_scatter_base": Method("reduce_scatter", 1),
    "reduce_scatter_single_coalesced": Method("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced": Method("reduce_scatter", 1),
    "alltoall": Method("all_to_all", 1),
    "alltoall_base": Method("all_to_all", 1),
    "all_to_all_single": Method("all_to_all", 1),
    "gather": Method("gather", 1),
    "scatter": Method("scatter", 0),
    "barrier": Method("barrier", -1),
    "monitored_barrier": Method("monitored_barrier", -1),
    "send": Method("send", 0),
    "recv": Method("recv", 0),
    "recv_anysource": Method("recv", 0),
}
"""ProcessGroup methods by name; no torch version has all of them."""


class Collectives(C10dSource):
    """Wraps ProcessGroup and Work while installed."""

    name = "collectives"

    def _replace(self, distributed: Any) -> None:
        self.coalescing: dict[int, list[Instance]] = {}  # by group_id, between start and end
        group_type = distributed.ProcessGroup
        for name, method in METHODS.items():
            self._patches.replace(group_type, name, partial(_method, self, name, method))
        self._patches.replace(group_type, "_start_coalescing", partial(_start_coalescing, self))
        self._patches.replace(group_type, "_end_coalescing", partial(_end_coalescing, self))
        self._patches.replace(distributed.Work, "wait", partial(_wait, self))

    def uninstall(self) -> None:
        """Restore the methods; instances still in progress become rows without an end."""
        super().uninstall()
        if hasattr(self, "log"):
            self.log.give_up_device_times()

    def step_begin(self) -> None:
        """Find the axis of groups that had none so far."""
        if hasattr(self, "log"):
            self.log.groups.resolve_axes()

    def poll(self) -> None:
        """Write rows of accelerator collectives whose stamps are resolved."""
        if hasattr(self, "log"):
            self.log.resolve_device_times()


@guarded("collectives.enter")
def _enter(
    source: Collectives, pg: Any, name: str, method: Method, args: Any, kwargs: Any
) -> Instance | None:
    if not source.active or "collectives.issued" in disabled:
        return None
    log = source.log
    group = log.groups.of(pg)
    op = method.op
    # asyncOp False: the call is complete when it returns
    options = args[-1] if args and "opts" not in kwargs else kwargs.get("opts")
    blocking = name == "monitored_barrier" or getattr(options, "asyncOp", True) is False
    peer = tag = UNKNOWN
    if op in P2P:
        tag = int(kwargs["tag"] if "tag" in kwargs else args[-1])
        if name != "recv_anysource":
            peer = group.ranks[_peer_in_group(args, kwargs)]
    return log.begin(group, op, _payload(method, args, kwargs), "wrapper", blocking, peer, tag)


def _peer_in_group(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Group rank of the other side of a send or recv."""
    named = kwargs.get("dstRank", kwargs.get("srcRank"))
    return int(args[1] if named is None else named)


def _payload(method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Payload:
    """This member's input, or its output where it has no input."""
    values = args + tuple(kwargs.values()) if kwargs else args  # torch passes these by position
    if not 0 <= method.input_at < len(values):
        return NOTHING
    return payload_of(values[method.input_at])


@guarded("collectives.issued")
def _issued(source: Collectives, instance: Instance, work: Any) -> None:
    """The call has returned: it is complete, or has a Work to wait for, or is in a batch."""
    log = source.log
    log.issued(instance)
    coalescing = source.coalescing
    batch = coalescing.get(instance.group.group_id) if coalescing else None
    if batch is not None:
        if instance.mark is not None:
            log.span(instance, instance.mark)
            instance.mark = None
        batch.append(instance)
    elif work is None:
        if instance.mark is not None:
            log.span(instance, instance.mark)
        log.finish(instance, "completed", now())
    else:
        source.outstanding.add(id(work), work, [instance])


@guarded("collectives.refused")
def _refused(source: Collectives, instance: Instance) -> None:
    source.log.refused(instance)


@guarded("collectives.wait_begins")
def _wait_begins(source: Collectives, work: Any) -> tuple[list[Instance], Mark] | None:
    """Begin the blocking span, unless the call that blocks has begun it already."""
    instances = source.outstanding.get(id(work))
    if not instances or "collectives.wait_ends" in disabled:
        return None
    first = instances[0]
    return instances, source.recorder.open() if first.mark is None else first.mark


@guarded("collectives.wait_ends")
def _wait_ends(
    source: Collectives, work: Any, waited: tuple[list[Instance], Mark], state: str
) -> None:
    instances, mark = waited
    for instance in instances:
        if instance.op == "recv" and instance.peer == UNKNOWN and state == "completed":
            sender = instance.group.ranks[work._source_rank()]
            source.log.found_peer(instance, sender)
    source.log.span(instances[0], mark)
    source.outstanding.end(id(work), state)


@guarded("collectives.coalesce")
def _coalesce(source: Collectives, pg: Any) -> None:
    source.coalescing[source.log.groups.of(pg).group_id] = []


@guarded("collectives.coalesced")
def _coalesced(source: Collectives, pg: Any, work: Any) -> None:
    """A batch has been issued as one: its one Work ends all of it."""
    batch = source.coalescing.pop(source.log.groups.of(pg).group_id, [])
    if work is not None and batch:
        source.outstanding.add(id(work), work, batch)
    else:
        for instance in batch:
            source.log.finish(instance, "completed", now())


def _method(source: Collectives, name: str, how: Method, original: Any) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        instance = _enter(source, self, name, how, args, kwargs)
        try:
            work = original(self, *args, **kwargs)
        except BaseException:
            if instance is not None:
                _refused(source, instance)
            raise
        if instance is not None:
            _issued(source, instance, work)
        return work

    return _posing_as(original, name, method)


def _wait(source: Collectives, original: Any) -> Callable[..., Any]:
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        waited = _wait_begins(source, self)
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            if waited is not None:
                _wait_ends(source, self, waited, "failed")
            raise
        if waited is not None:
            _wait_ends(source, self, waited, "completed")
        return result

    return _posing_as(original, "wait", wait)


def _start_coalescing(source: Collectives, original: Any) -> Callable[..., Any]:
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _coalesce(source, self)
        return result

    return _posing_as(original, "_start_coalescing", start)


def _end_coalescing(source: Collectives, original: Any) -> Callable[..., Any]:
    def end(self: Any, *args: Any, **kwargs: Any) -> Any:
        work = original(self, *args, **kwargs)
        _coalesced(source, self, work)
        return work

    return _posing_as(original, "_end_coalescing", end)


def _posing_as(original: Any, name: str, wrapper: Any) -> Callable[..., Any]:
    """The wrapper under the original's name, down to its frames.

    pybind11 uses the running frame's name to see whether a Python override calls back; under
    another name a Python subclass of a wrapped class would recurse forever. Dynamo skips it.
    """
    wrapper.__code__ = wrapper.__code__.replace(co_name=name, co_qualname=name)
    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__doc__ = original.__doc__
    wrapper.__dict__["_torchdynamo_disable"] = True
    return wrapper
