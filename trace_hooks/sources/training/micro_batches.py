"""Micro-batches of gradient accumulation, recognised by what a step consists of.

Where a step was nothing but forwards of one model, each followed by a backward pass, and more than
one of them, the forwards of the next step are numbered. So a GAN, a loss of two forwards, or a step
with a single one has none: a wrong number would be worse than none. Inside a pipeline the schedule
numbers them.
"""

from __future__ import annotations

from trace_hooks.recording.rank_state import RankState
from trace_hooks.schema import UNKNOWN

MOST_NOTED = 10_000
"""Forwards and backward passes of a step that are looked at."""


class MicroBatches:
    """Sets the rank's micro-batch from the forward of the model to the end of its backward pass."""

    def __init__(self, rank_state: RankState) -> None:
        self._state = rank_state
        self._noted: list[int] = []  # of this step: id of a model that ran forward, 0 a pass
        self._model = 0  # whose forwards are numbered, by the last step
        self._next = 0

    def step_begins(self) -> None:
        """Learn from the step before."""
        if self._noted:
            self._model = accumulated(self._noted)
        self._noted = []
        self._next = 0
        self._leave()

    def forward(self, model: int) -> None:
        """A model, by its id, runs forward with gradients."""
        if self._state.chunk != UNKNOWN:
            return
        self._note(model)
        if self._model:
            self._state.microbatch = self._next if model == self._model else UNKNOWN
            self._next += model == self._model

    def backward(self) -> None:
        """A backward pass begins."""
        if self._state.chunk == UNKNOWN:
            self._note(0)

    def passed(self) -> None:
        """It has ended."""
        self._leave()

    def _leave(self) -> None:
        if self._state.chunk == UNKNOWN:
            self._state.microbatch = UNKNOWN

    def _note(self, what: int) -> None:
        if len(self._noted) < MOST_NOTED:
            self._noted.append(what)


def accumulated(noted: list[int]) -> int:
    """The one model whose forwards and backward passes alternate, several times; 0 none."""
    forwards, passes = noted[::2], noted[1::2]
    is_one = len(noted) >= 4 and len(noted) % 2 == 0 and len(set(forwards)) == 1
    return forwards[0] if is_one and not any(passes) else 0
