"""What the sources of frameworks have in common: they wrap functions until the tracer stops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trace_hooks.recording.clock import now
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext
from trace_hooks.sources.patching import Patches
from trace_hooks.sources.training.autostep import AutoSteps
from trace_hooks.sources.training.pipeline import Action, recorded

ActionOf = Callable[..., Action | None]
"""What a call does, by its arguments; None: nothing to record."""


class FrameworkSource(Source):
    """Wraps functions of a framework, and says where the steps are that it drives."""

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.steps = context.steps
        self._auto = AutoSteps.shared(context.steps)
        self._patches = Patches()

    def uninstall(self) -> None:
        """Restore the functions."""
        self._patches.restore()

    def record(self, owner: Any, name: str, action_of: ActionOf) -> None:
        """A span for each call of `owner.name`."""
        make = functools.partial(recorded, self.recorder, action_of, source=self.name)
        self._patches.replace(owner, name, make)

    def before(self, owner: Any, name: str, first: Callable[..., object]) -> None:
        """Call `first`, which is guarded, with args and kwargs of each call of `owner.name`."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                if not self.recorder.is_over:
                    first(args, kwargs)
                return original(*args, **kwargs)

            return wrapper

        self._patches.replace(owner, name, make)

    def after(self, owner: Any, name: str, then: Callable[..., object]) -> None:
        """Call `then`, which is guarded, with the result of each call of `owner.name`, and with
        args and kwargs."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                if not self.recorder.is_over:
                    then(result, args, kwargs)
                return result

            return wrapper

        self._patches.replace(owner, name, make)

    def begin_step(self, number: int) -> None:
        """The framework begins the step with this number."""
        self._auto.activity(now())
        self.steps.renumber(number)

    def hold_step(self) -> None:
        """The framework begins to step its optimizers: the step ends when it is done with them."""
        self._auto.hold()

    def end_step(self, is_over: bool = True, **values: Any) -> None:
        """It is done, and so is the step. `values`: what `Tracer.log` takes; what the job logs
        itself counts more."""
        self.steps.suggest(values)
        self._auto.release(now(), is_over)


def named(name: str, kind: str) -> ActionOf:
    """The same span for all calls, of no micro-batch."""
    action = Action(name, kind, UNKNOWN, UNKNOWN)
    return lambda *args, **kwargs: action
