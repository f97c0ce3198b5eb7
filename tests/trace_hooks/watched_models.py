"""Models whose content is watched in a test, step by step, and the frames that come of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from tests.trace_hooks.tiny_models import Tracing, batch, loss_of, tracing
from trace_hooks.protocol.frames import Frame
from trace_hooks.sources.inspection.inspection import Inspection


@contextmanager
def watching(
    model: nn.Module, *watches: dict[str, Any], allow: bool = True, stage: int | None = None
) -> Iterator[tuple[Tracing, Inspection]]:
    """Modules and content of `model` recorded; steps are begun by `step`."""
    with tracing("modules", "inspection", allow_content=allow) as traced:
        traced.rank_state.writes_rows = True
        traced.watch(model, stage)
        source = traced.source("inspection")
        assert isinstance(source, Inspection)
        acks = source.inspect(list(watches))
        assert not allow or all(ack.ok for ack in acks), acks
        yield traced, source


def step(traced: Tracing, number: int) -> None:
    source = traced.source("inspection")
    source.step_end()
    traced.rank_state.step = number
    source.step_begin()


def forward_backward(traced: Tracing, model: nn.Module, number: int = 0) -> None:
    step(traced, number)
    loss_of(model, batch(number)).backward()


def frames(traced: Tracing, **wanted: Any) -> list[Frame]:
    """Frames so far as the table has them; ids of tokens, which come with most, if requested."""
    source = traced.source("inspection")
    source.step_end()
    source.poll()
    captured = [Frame(**row) for row in traced.rows("frames")]
    if "what" not in wanted:
        captured = [one for one in captured if one.what not in ("tokens", "token_loss")]
    return [one for one in captured if all(getattr(one, k) == v for k, v in wanted.items())]
