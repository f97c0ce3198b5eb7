"""Times of a plan's operations, and how many micro-batches it holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from diagnosis.whatif.schedules.plan import BACKWARD, FORWARD, WEIGHTS, Op, Plan

Took = Callable[[Op], float]
"""Seconds that an operation takes by itself."""

Transfer = Callable[[Op, Op], float]
"""Seconds from the end of an operation until another device may begin the next one."""


def instant(first: Op, then: Op) -> float:
    """A transfer that takes no time."""
    return 0.0


@dataclass(frozen=True)
class Replayed:
    """Start and end of each operation, s from the first start."""

    plan: Plan
    start_s: dict[Op, float]
    end_s: dict[Op, float]

    @property
    def span_s(self) -> float:
        """From the first start to the last end."""
        return max(self.end_s.values())

    @property
    def bubble(self) -> float:
        """Idle share of all devices within the span, 0 to 1."""
        busy = sum(end - self.start_s[op] for op, end in self.end_s.items())
        return 1 - busy / (len(self.plan.orders) * self.span_s)

    def held(self) -> tuple[int, ...]:
        """Of each device the most forwards whose activations it holds at once: from the start of
        a forward to the end of its backward (of weights, where they run apart).
        """
        released = WEIGHTS if self.plan.is_split else BACKWARD
        most = []
        for ops in self.plan.orders:
            now = greatest = 0
            for op in ops:
                now += op.kind == FORWARD
                greatest = max(greatest, now)
                now -= op.kind == released
            most.append(greatest)
        return tuple(most)


def replay(plan: Plan, took: Took, transfer: Transfer = instant) -> Replayed:
    """Each device runs its operations in order, each as soon as those before it have ended; raises
    ValueError where devices wait for each other for ever.
    """
    start_s: dict[Op, float] = {}
    end_s: dict[Op, float] = {}
    at, free_s = [0] * len(plan.orders), [0.0] * len(plan.orders)
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
            begin_s = max(
                [free_s[device], *(_arrives_s(plan, one, op, end_s, transfer) for one in needed)]
            )
            start_s[op], end_s[op] = begin_s, begin_s + took(op)
            free_s[device] = end_s[op]
            at[device] += 1
            ready.extend(waiting.pop(op, ()))
    if waiting:
        raise ValueError("the devices of this schedule wait for each other; it never ends")
    return Replayed(plan, start_s, end_s)


def _arrives_s(plan: Plan, one: Op, op: Op, end_s: dict[Op, float], transfer: Transfer) -> float:
    moves = plan.device_of[one] != plan.device_of[op]
    return end_s[one] + (transfer(one, op) if moves else 0.0)
