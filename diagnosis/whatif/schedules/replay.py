"""Times of a plan's operations, and how many micro-batches it holds.

Times are numbers, or arrays of one shape (L,): the same plan with other times in each lane.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np

from diagnosis.whatif.operations import Floats
from diagnosis.whatif.schedules.plan import BACKWARD, FORWARD, WEIGHTS, Op, Plan

Seconds: TypeAlias = float | Floats

Took = Callable[[Op], Seconds]
"""Seconds that an operation takes by itself."""

Transfer = Callable[[Op, Op], float]
"""Seconds from the end of an operation until another device may begin the next one."""


Gap = Callable[[Op], float]
"""Seconds from when an operation could begin until it does."""


def no_gap(op: Op) -> float:
    """A device that never hesitates."""
    return 0.0


def instant(first: Op, then: Op) -> float:
    """A transfer that takes no time."""
    return 0.0


@dataclass(frozen=True)
class Replayed:
    """Start and end of each operation, s from the first start."""

    plan: Plan
    start_s: dict[Op, Seconds]
    end_s: dict[Op, Seconds]

    @property
    def span_s(self) -> Seconds:
        """From the first start to the last end."""
        return latest(self.end_s.values())

    @property
    def bubble(self) -> Seconds:
        """Idle share of all devices within the span, 0 to 1."""
        busy = sum(end - self.start_s[op] for op, end in self.end_s.items())
        return 1 - busy / (len(self.plan.orders) * self.span_s)

    def held(self) -> tuple[int, ...]:
        """Of each device the most forwards whose activations it holds at once: from the start of
        a forward to the end of its backward (of weights, where they run apart). Where backwards
        have devices of their own, these hold them from the end of the forward.
        """
        released = WEIGHTS if self.plan.is_split else BACKWARD
        most = []
        for device, ops in enumerate(self.plan.orders):
            if all(op.kind != FORWARD for op in ops):
                most.append(self._held_by_backwards(device))
                continue
            now = greatest = 0
            for op in ops:
                now += op.kind == FORWARD
                greatest = max(greatest, now)
                now -= self.plan.device_of[op._replace(kind=released)] != device
                now -= op.kind == released
            most.append(greatest)
        return tuple(most)

    def _held_by_backwards(self, device: int) -> int:
        changes = []
        for op in self.plan.orders[device]:
            arrives_s = self.end_s[op._replace(kind=FORWARD)]
            changes += [(float(np.mean(arrives_s)), 1), (float(np.mean(self.end_s[op])), -1)]
        now = greatest = 0
        for _, change in sorted(changes):
            now += change
            greatest = max(greatest, now)
        return greatest


def replay(plan: Plan, took: Took, transfer: Transfer = instant, gap: Gap = no_gap) -> Replayed:
    """Each device runs its operations in order, each as soon as those before it have ended; raises
    ValueError where devices wait for each other for ever.
    """
    start_s: dict[Op, Seconds] = {}
    end_s: dict[Op, Seconds] = {}
    at = [0] * len(plan.orders)
    free_s: list[Seconds] = [0.0] * len(plan.orders)
    waiting: dict[Op, list[int]] = {}  # devices, by the operation that they wait for
    ready = deque(range(len(plan.orders)))
    while ready:
        device = ready.popleft()
        ops = plan.orders[device]
        while at[device] < len(ops):
            op = ops[at[device]]
            needed = list(plan.before(op))
            missing = next((one for one in needed if one not in end_s), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(device)
                break
            begin_s = latest(
                [free_s[device], *(_arrives_s(plan, one, op, end_s, transfer) for one in needed)]
            ) + gap(op)
            start_s[op], end_s[op] = begin_s, begin_s + took(op)
            free_s[device] = end_s[op]
            at[device] += 1
            ready.extend(waiting.pop(op, ()))
    if waiting:
        raise ValueError("the devices of this schedule wait for each other; it never ends")
    return Replayed(plan, start_s, end_s)


def latest(times: Iterable[Seconds]) -> Seconds:
    """The greatest, lane by lane."""
    return reduce(np.maximum, times)


def _arrives_s(
    plan: Plan, one: Op, op: Op, end_s: dict[Op, Seconds], transfer: Transfer
) -> Seconds:
    moves = plan.device_of[one] != plan.device_of[op]
    return end_s[one] + (transfer(one, op) if moves else 0.0)


def period_s(
    plan: Plan,
    took: Took,
    transfer: Transfer = instant,
    gap: Gap = no_gap,
    num_steps: int = 4,
) -> Seconds:
    """From the end of one step to that of the next, where each device goes on with the next step
    as soon as it is done with one.
    """
    m = 1 + max(op.microbatch for op in plan.orders[0])
    many = Plan(
        tuple(
            tuple(
                op._replace(microbatch=op.microbatch + step * m)
                for step in range(num_steps)
                for op in ops
            )
            for ops in plan.orders
        ),
        plan.home,
        plan.chunks,
        plan.is_split,
    )

    def of_first(op: Op) -> Op:
        return op._replace(microbatch=op.microbatch % m)

    made = replay(many, lambda op: took(of_first(op)), transfer, lambda op: gap(of_first(op)))
    second, last = (
        latest(end for op, end in made.end_s.items() if op.microbatch // m == step)
        for step in (1, num_steps - 1)
    )
    return (last - second) / (num_steps - 2)
