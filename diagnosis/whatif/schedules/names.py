"""Schedules by name, and the order of operations under each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from diagnosis.whatif.schedules import greedy, orders
from diagnosis.whatif.schedules.plan import FORWARD, Op, Plan
from diagnosis.whatif.schedules.replay import instant

CHUNKS = 2
"""Of a stage, where the job has none of its own."""

ONE_CHUNK = ("1f1b", "gpipe", "zb-h1", "zb-h2", "fbd")
TWO_CHUNKS = ("zbv", "dualpipe-v")
OVERLAPPING = ("zb-h2",)
"""Devices begin the next step while others are still in this one."""


@dataclass(frozen=True)
class Sizes:
    """Stages, micro-batches, chunks of a stage, and micro-batches that each device may hold."""

    p: int
    m: int
    v: int
    most_held: tuple[int, ...] | None = None


def _nominal(op: Op) -> float:
    """Frameworks fix an order before they know times: a backward takes two forwards."""
    return 1.0 if op.kind == FORWARD else 2.0


def _limits(sizes: Sizes) -> list[int] | None:
    """Forwards of chunks that each device may hold."""
    return None if sizes.most_held is None else [num * sizes.v for num in sizes.most_held]


def _breadth_first(sizes: Sizes) -> Plan:
    p, m, v, limits = sizes.p, sizes.m, sizes.v, _limits(sizes)
    if limits is None or min(limits) >= m * v:
        return orders.breadth_first(p, m, v)
    return greedy.breadth_first_within(p, m, v, _nominal, instant, limits)


_MAKES: dict[str, Callable[[Sizes], Plan]] = {
    "1f1b": lambda of: orders.one_f_one_b(of.p, of.m),
    "gpipe": lambda of: orders.gpipe(of.p, of.m),
    "interleaved": lambda of: orders.interleaved(of.p, of.m, of.v),
    "breadth-first": _breadth_first,
    "depth-first": lambda of: greedy.depth_first(of.p, of.m, of.v, _nominal, limit=_limits(of)),
    "zb-h1": lambda of: orders.zero_bubble_h1(of.p, of.m),
    "zb-h2": lambda of: orders.zero_bubble_h2(of.p, of.m),
    "interleaved-zb": lambda of: orders.interleaved_zero_bubble(of.p, of.m, of.v),
    "zbv": lambda of: orders.zbv(of.p, of.m),
    "dualpipe-v": lambda of: orders.dualpipe_v(of.p, of.m),
    "fbd": lambda of: orders.decoupled(of.p, of.m),
}
NAMES = tuple(_MAKES)


def chunks_of(name: str, own: int, wanted: int | None) -> int:
    """Of a stage under a schedule. `own`: those of the job; `wanted`: None as usual."""
    if name in ONE_CHUNK:
        return 1
    if name in TWO_CHUNKS:
        return 2
    return wanted or (own if own > 1 else CHUNKS)


def plan_of(name: str, sizes: Sizes) -> Plan:
    """The order under one of NAMES; raises ValueError, one sentence, where it cannot run these
    sizes.
    """
    return _MAKES[name](sizes)
