"""Wrappers that count samples, and the names of a mixture's sources, for the adapters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from trace_hooks.sources.mixtures.draws import UNHARMED, Draws


class Mixture(NamedTuple):
    """Names of its sources, and their weights: None where it plans none."""

    names: list[str]
    weights: Sequence[float] | None


Replace = Callable[[Any, str, Callable[[Any], Any]], bool]
"""Patches.replace."""

SourceOf = Callable[..., str | None]
"""The source of a sample, from the arguments of the method that makes it; None unknown."""

_known: WeakKeyDictionary[Any, tuple[Draws, list[str]]] = WeakKeyDictionary()


def names_of(mixture: Any, look: Callable[[Any], Mixture]) -> list[str]:
    """Of its sources; the first time, `look` finds them and the plan is noted."""
    draws = Draws.current
    known = _known.get(mixture)
    if known is not None and known[0] is draws:
        return known[1]
    names, weights = look(mixture)
    if draws is not None:
        _known[mixture] = draws, names
        draws.plan(names, weights)
    return names


def timed(source_of: SourceOf) -> Callable[[Any], Any]:
    """For a method that does all the work on a sample: workers time it, too."""

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def sample(mixture: Any, *args: Any, **kwargs: Any) -> Any:
            draws, begun = Draws.current, None
            if draws is not None and not draws.is_inside:
                with UNHARMED:
                    source = source_of(mixture, *args, **kwargs)
                    begun = None if source is None else draws.begin(source)
            if draws is None or begun is None:
                return original(mixture, *args, **kwargs)
            try:
                return original(mixture, *args, **kwargs)
            finally:
                with UNHARMED:
                    draws.end(begun)

        return sample

    return make


def counted(source_of: SourceOf) -> Callable[[Any], Any]:
    """For a method that does a part of the work on a sample. Its source may be asked for after."""

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def sample(mixture: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(mixture, *args, **kwargs)
            count(source_of, mixture, *args, **kwargs)
            return made

        return sample

    return make


def count(source_of: SourceOf, *args: Any, **kwargs: Any) -> None:
    """One sample of the source that `source_of` says."""
    draws = Draws.current
    if draws is not None and not draws.is_inside:
        with UNHARMED:
            source = source_of(*args, **kwargs)
            if source is not None:
                draws.add(source)
