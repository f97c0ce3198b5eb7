"""Where the steps of an unmodified script begin and end, derived from its optimizers.

A step ends when every optimizer of a cycle has stepped. The cycle is learned: the first step ends
when every optimizer there is has stepped, or else when one that has stepped in it is about to step
again, in hindsight at the last optimizer step before. So two optimizers (GAN) make one step per
cycle, an optimizer per parameter stepping inside the backward pass one per iteration, and gradient
accumulation counts optimizer steps only. An optimizer that sits out once (GradScaler found an
overflow) does not change the cycle; a smaller cycle is adopted when it was seen twice in a row. An
iteration in which no optimizer steps belongs to the step after it. One that steps again with other
parameters, and no forward in between, goes on with the step: ZeRO in DeepSpeed steps its optimizer
once for each group of parameters.

Events before a step's end that is known only in hindsight keep the number of the step before. Steps
are numbered from 0; the checkpoint number of a resumed job is unknown, so the number is a guess
there. `Steps.explicit` (the user's own `with tracer.step(n)`) switches all of this off.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from trace_hooks.sources.context import Steps


class AutoSteps:
    """Drives `steps` from optimizer steps; times are `clock.now()` readings."""

    def __init__(self, steps: Steps) -> None:
        self._steps = weakref.ref(steps)
        self._on = False
        self.waiting = False
        """A step begins with the next activity."""
        self._boundary_ns: int | None = None  # end of the last step
        self._stepped: list[int] = []  # ids of the optimizers that stepped in this step
        self._parts: set[tuple[int, int]] = set()  # (optimizer, its first parameter): in this step
        self._is_held = False
        self._goes_on = False  # an optimizer steps with more parameters of the last step
        self._last_ns = 0  # end of the latest optimizer step
        self._cycle: set[int] = set()
        self._candidate: set[int] = set()
        self._alive: Callable[[], set[int]] | None = None
        self._first_cycle: set[int] | None = None  # optimizers alive in the first step

    @classmethod
    def shared(cls, steps: Steps) -> AutoSteps:
        """The instance that all sources of a tracer share."""
        auto_steps = _by_steps.get(steps)
        if auto_steps is None:
            auto_steps = _by_steps[steps] = cls(steps)
        return auto_steps

    def switch_on(self, alive: Callable[[], set[int]] | None = None) -> None:
        """Recognise steps from the next activity on; `alive` lists the ids of all optimizers."""
        self._on = self.waiting = True
        self._alive, self._first_cycle = alive, None
        self._cycle, self._candidate = set(), set()
        self._stepped, self._boundary_ns = [], None
        self._is_held = False
        self._parts.clear()

    def switch_off(self) -> None:
        """Stop recognising steps. A running step without an optimizer step was not one."""
        steps = self._active()
        if steps is not None and not self.waiting:
            if self._stepped:
                steps.end(at_ns=self._last_ns)
            else:
                steps.forget()
        self._on = self.waiting = False

    def activity(self, at_ns: int) -> None:
        """A training forward began or a batch was fetched: a step begins if none is running.

        Steps follow each other without a gap: it begins where the last one ended.
        """
        steps = self._active()
        if steps is not None and self.waiting:
            self.waiting = False
            self._parts.clear()
            steps.begin(at_ns=at_ns if self._boundary_ns is None else self._boundary_ns)

    def optimizer_begins(self, optimizer: int, at_ns: int, parameter: int = 0) -> None:
        """Optimizer with this id is about to step; `parameter`: id of its first one, 0 none."""
        if self._active() is None:
            return
        before = {first for known, first in self._parts if known == optimizer}
        is_more = bool(before) and parameter not in before
        self._goes_on = self.waiting and is_more and not self._is_held
        if self._goes_on:
            self._parts.add((optimizer, parameter))
            return
        if optimizer in self._stepped and not (self._is_held and is_more):
            self._learn(set(self._stepped))
            self._end(self._last_ns)
        self.activity(at_ns)
        self._parts.add((optimizer, parameter))

    def optimizer_ended(self, optimizer: int, at_ns: int) -> None:
        """Optimizer with this id has stepped."""
        steps = self._active()
        if steps is None:
            return
        if self._goes_on:
            self._goes_on, self._boundary_ns = False, at_ns
            steps.extend(at_ns)
            return
        self._stepped.append(optimizer)
        self._last_ns = at_ns
        if self._is_complete() and not self._is_held:
            self._learn(set(self._stepped))
            self._end(at_ns)

    def hold(self) -> None:
        """A framework steps its optimizers: no step ends before it is done with them."""
        self._is_held = True

    def release(self, at_ns: int, is_over: bool) -> None:
        """It is done. `is_over`: so is the step, even where no optimizer stepped (an overflow)."""
        self._is_held = False
        self._last_ns = at_ns
        is_complete = self._is_complete()
        if is_complete:
            self._learn(set(self._stepped))
        if is_complete or is_over:
            self._end(at_ns)

    def _active(self) -> Steps | None:
        steps = self._steps() if self._on else None
        if steps is None or steps.explicit:
            self.waiting = False
            return None
        return steps

    def _is_complete(self) -> bool:
        cycle = self._cycle or self._guess()
        return bool(cycle) and cycle <= set(self._stepped)

    def _guess(self) -> set[int]:
        if self._alive is None:
            return set()
        if self._first_cycle is None:
            # a garbage collection that another thread is in the midst of hides objects
            self._first_cycle = self._alive() | set(self._stepped)
        return self._first_cycle

    def _learn(self, seen: set[int]) -> None:
        if not self._cycle or seen > self._cycle or seen == self._candidate:
            self._cycle, self._candidate = seen, set()
        elif seen == self._cycle:
            self._candidate = set()
        else:
            self._candidate = seen

    def _end(self, at_ns: int) -> None:
        steps = self._active()
        self._stepped = []
        if steps is not None and not self.waiting:
            steps.end(at_ns=at_ns)
            self._boundary_ns = at_ns
            self.waiting = True


_by_steps: weakref.WeakKeyDictionary[Steps, AutoSteps] = weakref.WeakKeyDictionary()
