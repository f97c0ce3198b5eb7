"""Evaluations of the model between optimizer steps, recognised by what runs.

Sees: forwards without gradients of a module in evaluation mode (`model.eval()`), between the end of
a step and the next forward with gradients. Together they are one span of kind `evaluation`: from
the first of these forwards, or where its batch is from a data loader, from the first use of that,
to the end of the last one. No other spans are recorded of these forwards, and what a data loader
hands out for them are no batches of a step. It has the number of the step that has ended, also
where the next one has its batch by then. Forwards before every step are not evaluations: a job that
learns from what its model generates has them, too, so only what the gap before did not have counts.
Misses: the metrics that are computed after the last forward, actions of a pipeline, evaluations
within a step of the user's own, and those of a model whose parameters are all frozen: it may be a
teacher or a reward model. `tracer.span(name, kind="evaluation")` states one, and inside any other
span of the user's own nothing is taken for one. Costs: one comparison a forward.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident

from torch import nn

from trace_hooks.recording.clock import now
from trace_hooks.schema import UNKNOWN
from trace_hooks.sources.alive import ByObject
from trace_hooks.sources.context import SourceContext

TRACK = "evaluation"
NONE = -2
"""No gap between steps."""


class Evaluations:
    """Takes forwards and uses of data loaders; times are `clock.now()` readings."""

    def __init__(self, context: SourceContext) -> None:
        self._recorder = context.recorder
        self._rank_state = context.rank_state
        self._models = context.models
        self._steps = weakref.ref(context.steps)
        self.may_begin = True  # no step of the user's own runs, and none has trained yet
        self.on_forward: Callable[[int], None] | None = None
        """Called before each forward of an evaluation with the time at which that began."""
        self._is_running = False
        self._begin_ns = self._end_ns = 0
        self._step = UNKNOWN  # in which it began
        self._loader = 0  # id of the iterator over a data loader that was used last; 0 none
        self._training_loader = 0  # the one whose batch has trained last
        self._loader_ns: int | None = None  # its first use, if after the step's end
        self._loader_begun_ns: int | None = None  # when the job began to make an iterator
        self._frozen: ByObject[None] = ByObject()  # hooked modules without a trainable parameter
        self._gap = 0  # number of this gap between steps
        self._last_gap = NONE  # newest one with forwards that look like an evaluation
        self._is_every_gap = False  # the one before had them as well
        self._thread = get_ident()  # the one that trains

    @classmethod
    def shared(cls, context: SourceContext) -> Evaluations:
        """The instance that all sources of a tracer share."""
        evaluations = _by_steps.get(context.steps)
        if evaluations is None:
            evaluations = _by_steps[context.steps] = cls(context)
        return evaluations

    def has_batch(self, iterator: int) -> bool:
        """Whether a batch of the iterator with this id seems to be one to evaluate: another than
        training had the last from, while no model is in training mode or an evaluation runs.
        """
        if not self.may_begin or iterator == self._training_loader:
            return False
        if self._is_running and iterator == self._loader:
            return True
        roots = [root for root, _ in self._models.roots.values()]
        return bool(roots) and not any(_trains(root) for root in roots)

    def step_back(self) -> bool:
        """An evaluation or a save begins. A step of which nothing but its batch is there has not
        begun to train: what lies before it has the number of the step before. False: it has begun.
        """
        steps = self._steps()
        if steps is None or not self.may_begin or steps.explicit:
            return False
        steps.step_back()
        return True

    def go_on(self) -> None:
        """A save has ended before which `step_back` said True; an evaluation may go on."""
        steps = self._steps()
        if steps is not None and not self._is_running:
            steps.go_on()

    def takes(self, module: nn.Module, is_outermost: bool) -> bool:
        """Whether a forward that begins now is part of an evaluation: it has no gradients, or the
        job says that it evaluates.
        """
        thread, state = get_ident(), self._rank_state
        if state.evaluating_thread:
            return thread == state.evaluating_thread
        if _trains(module) or thread != self._thread or state.prompting_thread:
            return False
        if not self._is_running and not (is_outermost and self.may_begin and self._begins(module)):
            return False
        if is_outermost:
            self.step_back()
            if self.on_forward is not None:
                self.on_forward(self._begin_ns)
        return True

    def forward_ended(self) -> None:
        """The outermost of these forwards has ended."""
        self._end_ns = now()

    def loader_begins(self, at_ns: int) -> None:
        """The job begins to make an iterator over a data loader."""
        self._loader, self._loader_begun_ns = 0, at_ns

    def uses_loader(self, iterator: int, at_ns: int) -> None:
        """The iterator with this id hands out a batch; a training one may have, before it."""
        if iterator != self._loader:
            begun_ns, self._loader_begun_ns = self._loader_begun_ns, None
            self._loader, self._loader_ns = iterator, at_ns if begun_ns is None else begun_ns

    def step_begins(self) -> None:
        """A step has begun: one of the user's own is no place for an evaluation."""
        steps = self._steps()
        if steps is not None and steps.explicit:
            self.training_begins()

    def step_ends(self) -> None:
        """A step ends: what follows lies between it and the next one."""
        self.may_begin = True
        self._loader_ns = self._loader_begun_ns = None
        self._gap += 1
        self._thread = get_ident()

    def training_begins(self) -> None:
        """The next step trains: what was evaluated before is complete."""
        self.may_begin = False
        steps = self._steps()
        is_automatic = steps is not None and not steps.explicit
        if steps is not None and is_automatic:
            steps.go_on()
        if not self._is_running:
            self._training_loader = self._loader
            return
        self._is_running = False
        self._rank_state.evaluated_ns = self._end_ns
        if steps is not None and is_automatic:
            steps.postpone(self._end_ns)
        self._recorder.add_span(
            self._recorder.site("evaluation", "evaluation"),
            self._begin_ns,
            self._end_ns,
            step=self._step,
            thread=self._recorder.track(TRACK),
            depth=0,
        )

    def _begins(self, module: nn.Module) -> bool:
        state = self._rank_state
        if state.chunk != UNKNOWN or self._recorder.depth > 0 or self._is_frozen(module):
            return False
        if self._gap != self._last_gap:
            self._is_every_gap = self._last_gap == self._gap - 1
            self._last_gap = self._gap
        if self._is_every_gap:
            return False
        begin_ns = now()
        self._is_running = True
        self._begin_ns = begin_ns if self._loader_ns is None else self._loader_ns
        self.step_back()
        self._step = state.step
        return True

    def _is_frozen(self, module: nn.Module) -> bool:
        if id(module) in self._frozen:
            return True
        if any(parameter.requires_grad for parameter in module.parameters()):
            return False
        self._frozen.put(module, None)
        return True


def _trains(module: nn.Module) -> bool:
    """Whether it is in training mode; engines of DeepSpeed set that of the model inside alone."""
    inside = module._modules.get("module")
    return module.training and (inside is None or inside.training)


_by_steps: weakref.WeakKeyDictionary[object, Evaluations] = weakref.WeakKeyDictionary()
