"""What forwards of a pipeline stage keep allocated; the allocator is a stand-in, no GPU is here."""

from __future__ import annotations

import pytest

from tests.trace_hooks.tiny_models import tracing
from trace_hooks.sources.training import action_memory, pipeline
from trace_hooks.sources.training.pipeline import Action

MICROBATCHES = 6


class Stage:
    """Holds 100 bytes more after each forward, 60 less after each backward."""

    def __init__(self) -> None:
        self.allocated = 1_000

    def forward(self) -> None:
        self.allocated += 100

    def backward(self) -> None:
        self.allocated -= 60


def said(monkeypatch: pytest.MonkeyPatch, step: int) -> list[tuple[str, str]]:
    """(kind, args) of the spans of a step that have any."""
    stage = Stage()
    monkeypatch.setattr(action_memory, "allocated", lambda: stage.allocated)
    with tracing("pipeline") as traced:
        traced.rank_state.step = step
        for kind in ("forward", "backward"):
            for microbatch in range(MICROBATCHES):
                action = Action(kind, kind, microbatch, 0)
                running = pipeline._begin(traced.recorder, lambda action=action: action, (), {})
                getattr(stage, kind)()
                pipeline._end(traced.recorder, running)
        spans = traced.spans(whole=True)
    assert len(spans) == 2 * MICROBATCHES
    extras = [(span.kind, span.row.extra) for span in spans]
    return [(kind, extra.args) for kind, extra in extras if extra is not None and extra.args]


def test_the_first_forwards_of_a_step_say_what_they_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, 2) == [("forward", '{"kept":100}')] * action_memory.FORWARDS


@pytest.mark.parametrize(
    ("step", "is_read"), [(-1, False), (0, False), (1, True), (3, True), (4, False), (128, True)]
)
def test_steps_1_to_3_are_read_and_every_64th(
    monkeypatch: pytest.MonkeyPatch, step: int, is_read: bool
) -> None:
    assert bool(said(monkeypatch, step)) == is_read


def test_without_cuda_nothing_is_read() -> None:
    assert action_memory.allocated_before("forward", 0, 1) == -1
    assert action_memory.kept(-1) is None
