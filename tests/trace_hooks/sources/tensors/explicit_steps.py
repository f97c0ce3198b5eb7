"""Small models trained with a source of statistics, whose steps a test begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from torch import nn

from tests.trace_hooks.tiny_models import TinyGPT, Tracing, seeded, tracing, train
from trace_hooks.sources.base import Source


@contextmanager
def watching(
    model: nn.Module, *, kind: type[Source], every: int = 1, errors: bool = False
) -> Iterator[Tracing]:
    """Modules and statistics of `model` recorded; steps are begun by `step`."""
    with tracing("modules", errors=errors, statistics_every=every) as traced:
        statistics = kind(traced.context)
        statistics.install()
        traced.sources.append(statistics)
        traced.watch(model)
        yield traced


def step(traced: Tracing, number: int) -> None:
    """A step begins."""
    traced.rank_state.step = number
    traced.sources[-1].step_begin()


def trained(traced: Tracing, model: nn.Module, steps: int = 3) -> list[float]:
    """tiny_models.train whose steps a test begins."""
    return train(model, steps, begin=partial(step, traced))


@contextmanager
def trained_as_without(
    watching: Callable[[nn.Module], AbstractContextManager[Tracing]], reentrant: bool | None
) -> Iterator[Tracing]:
    """Ten steps of a model that is watched; losses are bitwise those of one that is not."""
    plain = train(seeded(lambda: TinyGPT(reentrant=reentrant)), 10)
    model = seeded(lambda: TinyGPT(reentrant=reentrant))
    with watching(model) as traced:
        assert trained(traced, model, 10) == plain
        yield traced


def rows_of(traced: Tracing, table: str, **wanted) -> list[dict]:
    """Rows of the step that ends which have the wanted values."""
    traced.sources[-1].step_end()
    traced.sources[-1].poll()
    return [row for row in traced.rows(table) if all(row[key] == v for key, v in wanted.items())]
