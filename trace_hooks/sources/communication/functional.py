"""Functional collectives (DTensor, tensor parallel), seen where Python calls their operators.

`torch.ops._c10d_functional.all_reduce` is an OpOverloadPacket, and `all_reduce.default`, which the
code that torch.compile makes calls, an OpOverload. The operators inside them are replaced, so
packet and overload, which torch.compile recognises by identity, stay. An operator issues its
collective and returns; `wait_tensor` on its result ends it. Misses: compiled code that calls the
operators from C++ (Inductor's cpp_wrapper, AOTInductor) or replays a CUDA graph: those collectives
come from the Flight Recorder, without an end. Verified with torch 2.13: eager, `aot_eager` and
Inductor's Python code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from trace_hooks.recording.guard import disabled, guarded
from trace_hooks.recording.recorder import Mark
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.communication.c10d_source import C10dSource
from trace_hooks.sources.communication.collective_log import (
    P2P,
    SEQUENCES,
    Instance,
    payload_of,
)

OPERATORS = {
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_reduce_coalesced_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_out": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
    "isend": "send",
    "irecv": "recv",
}
"""Collective of each operator: first argument in, last argument the group (or its name)."""

NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")


class FunctionalCollectives(C10dSource):
    """Replaces what the packets of functional collectives call while installed."""

    name = "functional"

    def _replace(self, distributed: Any) -> None:
        import torch
        from torch._C import _distributed_c10d as distributed_c10d

        self.plain, self.awaited = _eager_types()
        self.is_compiling = torch.compiler.is_compiling
        self.group_named = distributed_c10d._resolve_process_group
        for namespace in NAMESPACES:
            operators = getattr(torch.ops, namespace)
            for name, op in OPERATORS.items():
                if hasattr(operators, name):
                    self._replace_all(getattr(operators, name), partial(Issuing, self, op))
        waiting = partial(Waiting, self, "wait_tensor")
        self._replace_all(torch.ops._c10d_functional.wait_tensor, waiting)

    def _replace_all(self, packet: Any, wrapped: Callable[..., Any]) -> None:
        """What a packet and its overloads call. One call may come through both: see Calls."""
        for owner in (packet, *(getattr(packet, name) for name in packet.overloads())):
            self._patches.replace(owner, "_op", wrapped)


class Calls(threading.local):
    """Whether the thread is in a recorded operator: a dispatch mode calls the overload from it."""

    inside = False


calls = Calls()


class _Operator:
    """Stands in for the builtin a packet calls: hashes, compares and looks like it."""

    def __init__(self, source: FunctionalCollectives, op: str, original: Callable[..., Any]):
        self.source, self.original, self.op = source, original, op

    def __hash__(self) -> int:
        return hash(self.original)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.original

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


class Issuing(_Operator):
    """An operator that starts a collective."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator; a plain tensor's collective becomes an instance."""
        instance = None if calls.inside else _enter(self.source, self.op, args, kwargs)
        if instance is None:
            return self.original(*args, **kwargs)
        calls.inside = True
        try:
            result = self.original(*args, **kwargs)
        except BaseException:
            _refused(self.source, instance)
            raise
        finally:
            calls.inside = False
        _issued(self.source, instance, result)
        return result


class Waiting(_Operator):
    """wait_tensor: blocks until a result is there."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator; the time in it is communication."""
        waited = None if calls.inside else _wait_begins(self.source, args)
        if waited is None:
            return self.original(*args, **kwargs)
        calls.inside = True
        try:
            result = self.original(*args, **kwargs)
        except BaseException:
            _wait_ends(self.source, waited, "failed")
            raise
        finally:
            calls.inside = False
        _wait_ends(self.source, waited, "completed")
        return result


class Waited(NamedTuple):
    """A wait going on."""

    key: int
    instance: Instance
    mark: Mark


def _eager_types() -> tuple[frozenset[type], frozenset[type]]:
    """Types of tensors whose collectives run, and of those that a wait really blocks on.

    Fakes, functional tensors and proxies only trace; an AsyncCollectiveTensor waits for its inner
    one.
    """
    import torch
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    real = frozenset((torch.Tensor, torch.nn.Parameter, torch.nn.Buffer))
    return real | {AsyncCollectiveTensor}, real


def _storage(tensor: Any) -> int:
    """Identity of a result: wait_tensor may be given another tensor over the same storage."""
    return int(tensor.untyped_storage()._cdata)


@guarded("functional.enter")
def _enter(source: FunctionalCollectives, op: str, args: Any, kwargs: Any) -> Instance | None:
    if not source.active or "functional.issued" in disabled:
        return None
    value = args[0] if args else None
    first = value[0] if isinstance(value, SEQUENCES) and value else value
    if type(first) not in source.plain or source.is_compiling():
        return None
    named = kwargs["group_name"] if "group_name" in kwargs else args[-1]
    group = source.log.groups.of(source.group_named(named) if type(named) is str else named)
    peer = tag = UNKNOWN
    if op in P2P:
        peer, tag = group.ranks[int(args[1])], int(args[2])
    return source.log.begin(group, op, payload_of(value), "functional", False, peer, tag)


@guarded("functional.issued")
def _issued(source: FunctionalCollectives, instance: Instance, result: Any) -> None:
    """The last of a coalesced operator's results stands for all: one Work completes them."""
    source.log.issued(instance)
    awaited = result[-1] if isinstance(result, SEQUENCES) else result
    source.outstanding.add(_storage(awaited), awaited, [instance])


@guarded("functional.refused")
def _refused(source: FunctionalCollectives, instance: Instance) -> None:
    source.log.refused(instance)


@guarded("functional.wait_begins")
def _wait_begins(source: FunctionalCollectives, args: Any) -> Waited | None:
    if not args or type(args[0]) not in source.awaited or "functional.wait_ends" in disabled:
        return None
    key = _storage(args[0])
    instances = source.outstanding.get(key)
    return None if not instances else Waited(key, instances[0], source.recorder.open())


@guarded("functional.wait_ends")
def _wait_ends(source: FunctionalCollectives, waited: Waited, state: str) -> None:
    source.log.span(waited.instance, waited.mark)
    source.outstanding.end(waited.key, state)
