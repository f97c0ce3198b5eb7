"""Schedules without a fixed order: a device runs what is ready, by priority and within memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diagnosis.whatif.schedules.plan import BACKWARD, FORWARD, WEIGHTS, Op, Plan
from diagnosis.whatif.schedules.replay import Transfer, instant

Priority = Callable[[Op], tuple[int, ...]]
"""The least of what is ready goes first."""

Took = Callable[[Op], float]
"""Seconds that an operation takes by itself, one number."""


def depth_first(
    p: int,
    m: int,
    v: int,
    took: Took,
    transfer: Transfer = instant,
    limit: Sequence[int] | None = None,
) -> Plan:
    """MegaDPP's depth-first order: backwards first, the oldest micro-batch of them, then forwards
    of the deepest chunk.
    """

    def priority(op: Op) -> tuple[int, ...]:
        if op.kind == BACKWARD:
            return 0, op.microbatch, -op.stage
        return 1, -op.stage, op.microbatch

    return _made(Plan(_stages(p, v), tuple(range(p)) * v, v), m, priority, took, transfer, limit)


def breadth_first_within(
    p: int, m: int, v: int, took: Took, transfer: Transfer, limit: Sequence[int]
) -> Plan:
    """MegaDPP's best-effort breadth-first order: the first chunk of all micro-batches that memory
    allows, then the next one; backwards where no forward may begin. `limit`: forwards that each
    device may hold.
    """

    def priority(op: Op) -> tuple[int, ...]:
        return op.kind == BACKWARD, op.stage if op.kind == FORWARD else -op.stage, op.microbatch

    return _made(Plan(_stages(p, v), tuple(range(p)) * v, v), m, priority, took, transfer, limit)


def _stages(p: int, v: int) -> tuple[tuple[Op, ...], ...]:
    """Of each device its stages, as the forwards of micro-batch 0."""
    return tuple(tuple(Op(FORWARD, chunk * p + g, 0) for chunk in range(v)) for g in range(p))


def _made(
    plan: Plan,
    m: int,
    priority: Priority,
    took: Took,
    transfer: Transfer,
    limit: Sequence[int] | None,
) -> Plan:
    """The plan with the order in which its devices run everything. A device lets a micro-batch in
    as long as all chunks of those that it has begun fit; raises ValueError where not one fits.
    """
    most = [m if limit is None else limit[g] // plan.chunks for g in range(len(plan.orders))]
    if min(most) < 1:
        raise ValueError("so little fits into memory that not one micro-batch can run")
    kinds = (FORWARD, BACKWARD, WEIGHTS) if plan.is_split else (FORWARD, BACKWARD)
    device_of = {first.stage: g for g, ops in enumerate(plan.orders) for first in ops}
    left = {
        Op(kind, stage, i): sum(1 for _ in plan.before(Op(kind, stage, i)))
        for kind in kinds
        for stage in range(plan.num_stages)
        for i in range(m)
    }
    after: dict[Op, list[Op]] = {}
    for op in left:
        for one in plan.before(op):
            after.setdefault(one, []).append(op)
    num, p = len(plan.orders), plan.num_stages // plan.chunks
    ready: list[dict[Op, float]] = [{} for _ in range(num)]
    for op, missing in left.items():
        if not missing:
            ready[device_of[op.stage]][op] = 0.0
    free_s, held, orders = [0.0] * num, [0] * num, [list[Op]() for _ in range(num)]
    latest_s: dict[Op, float] = {}  # when what an operation waits for has arrived so far
    released = WEIGHTS if plan.is_split else BACKWARD
    for _ in range(len(left)):
        begins = [
            (max(free_s[g], min(allowed.values())), g)
            for g in range(num)
            if (allowed := _allowed(ready[g], held[g] < most[g], p))
        ]
        begin_s, g = min(begins)
        allowed = _allowed(ready[g], held[g] < most[g], p)
        op = min((op for op, at_s in allowed.items() if at_s <= begin_s), key=priority)
        del ready[g][op]
        orders[g].append(op)
        if op.stage < p:  # the first chunk of its device
            held[g] += (op.kind == FORWARD) - (op.kind == released)
        free_s[g] = end_s = begin_s + took(op)
        for then in after.get(op, ()):
            left[then] -= 1
            other = device_of[then.stage]
            arrives_s = end_s + (transfer(op, then) if other != g else 0.0)
            latest_s[then] = max(latest_s.get(then, 0.0), arrives_s)
            if not left[then]:
                ready[other][then] = latest_s.pop(then)
    return Plan(tuple(map(tuple, orders)), plan.home, plan.chunks, plan.is_split)


def _allowed(ready: dict[Op, float], lets_in: bool, p: int) -> dict[Op, float]:
    if lets_in:
        return ready
    return {op: s for op, s in ready.items() if op.kind != FORWARD or op.stage >= p}
