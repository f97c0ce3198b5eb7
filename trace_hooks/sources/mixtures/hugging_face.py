"""Adapters of Hugging Face datasets: `interleave_datasets` of streams, and of tables (map-style).

A stream says which source it draws from. A table of mixed rows does not: `interleave_datasets` is
watched, and what it returns remembers which rows are of which source, also after shuffle, select
and with_format. `map` makes a new table, of which nothing is known.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from trace_hooks.sources.mixtures.counting import Mixture, Replace, names_of
from trace_hooks.sources.mixtures.draws import UNHARMED, Draws
from trace_hooks.sources.mixtures.labels import (
    first_path,
    names_of_paths,
    numbered,
    source_of_path,
)

_FORMATS = ("json", "parquet", "csv", "text", "arrow", "generator", "webdataset", "pandas", "sql")
"""Builders that read files of any data set."""

_ROWS = "_trace_hooks_rows"
"""Attribute of a Dataset whose order of rows mixes sources: ends, names and weights of them. Rows
up to ends[n] are of source names[n]. Plain lists, since it is pickled with the Dataset.
"""


def streams(module: Any, replace: Replace) -> None:
    """Mixtures of streams. Sources of sources are read by other threads, so `inner` has them."""
    drawn: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # place of the newest sample's source
    inner: WeakSet[Any] = WeakSet()

    def remember(original: Any) -> Any:
        @functools.wraps(original)
        def places(mixture: Any) -> Iterator[int]:
            for place in original(mixture):
                drawn[mixture] = place
                yield place

        return places

    def count(original: Any) -> Any:
        @functools.wraps(original)
        def iterate(mixture: Any) -> Iterator[Any]:
            draws, names = Draws.current, None
            if draws is not None and mixture not in inner:
                with UNHARMED:
                    inner.update(_inside(mixture.ex_iterables))
                    names = names_of(mixture, _look)
            if draws is None or names is None:
                yield from original(mixture)
                return
            with closing(original(mixture)) as examples:
                for example in examples:
                    with UNHARMED:
                        draws.add(names[drawn[mixture]], getattr(example[1], "num_rows", 1))
                    yield example

        return iterate

    def shards(original: Any) -> Any:
        @functools.wraps(original)
        def interleave(whole: Any) -> Any:
            mixed = original(whole)
            with UNHARMED:  # of one source, unless the whole is a mixture
                inner.add(mixed)
                if whole in inner:
                    inner.update(_inside([mixed]))
            return mixed

        return interleave

    cycling = module.CyclingMultiSourcesExamplesIterable
    for one in (cycling, module.RandomlyCyclingMultiSourcesExamplesIterable):
        replace(one, "_get_indices_iterator", remember)
    replace(cycling, "__iter__", count)
    replace(cycling, "_iter_arrow", count)
    of_shards = getattr(module, "InterleavedShardsExamplesIterable", None)
    if of_shards is not None:
        replace(of_shards, "_interleave_shards", shards)


def interleaved_tables(module: Any, replace: Replace) -> None:
    """What `interleave_datasets` makes of tables: one table of all rows, and an order of them."""

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def interleave(datasets: Any, probabilities: Any = None, *args: Any, **kwargs: Any) -> Any:
            mixed = original(datasets, probabilities, *args, **kwargs)
            with UNHARMED:
                ends = list(accumulate(len(dataset) for dataset in datasets))
                goes_on = _goes_on(kwargs.get("stopping_strategy"))
                weights = _weights(probabilities, len(ends)) if goes_on else None
                names = numbered([_table_name(dataset) for dataset in datasets])
                setattr(mixed, _ROWS, (ends, names, weights))
            return mixed

        return interleave

    replace(module, "_interleave_map_style_datasets", make)


def tables(module: Any, replace: Replace) -> None:
    """Rows of such a Dataset, however they are asked for, and Datasets that have others of them."""

    def look(dataset: Any) -> Mixture:
        _, names, weights = getattr(dataset, _ROWS)
        return Mixture(names, weights)

    def count(original: Any) -> Any:
        @functools.wraps(original)
        def getitem(dataset: Any, key: Any, **kwargs: Any) -> Any:
            found = original(dataset, key, **kwargs)
            draws, rows = Draws.current, getattr(dataset, _ROWS, None)
            if draws is not None and rows is not None and not draws.is_inside:
                with UNHARMED:
                    names = names_of(dataset, look)
                    for row in _drawn(dataset, key):
                        draws.add(names[bisect.bisect_right(rows[0], row)])
            return found

        return getitem

    def carry(original: Any) -> Any:
        @functools.wraps(original)
        def select(dataset: Any, *args: Any, **kwargs: Any) -> Any:
            selected = original(dataset, *args, **kwargs)
            with UNHARMED:
                if hasattr(dataset, _ROWS) and dataset._indices is not None:
                    setattr(selected, _ROWS, getattr(dataset, _ROWS))
            return selected

        return select

    replace(module.Dataset, "_getitem", count)
    for name in ("_select_with_indices_mapping", "_select_contiguous"):
        replace(module.Dataset, name, carry)


def _drawn(dataset: Any, key: Any) -> list[int]:
    """Rows of the table, for an index or several; none where the order of rows is not known."""
    if dataset._indices is None:
        return []
    column = dataset._indices.column(0)
    keys = [int(one) for one in (key if hasattr(key, "__iter__") else [key])]
    return [column[one + len(dataset) if one < 0 else one].as_py() for one in keys]


def _table_name(dataset: Any) -> str:
    name = getattr(dataset.info, "dataset_name", None)
    if isinstance(name, str) and name not in _FORMATS:
        return name
    return source_of_path(first_path(dataset) or "")


def _look(mixture: Any) -> Mixture:
    sources = mixture.ex_iterables
    weights = _weights(getattr(mixture, "probabilities", None), len(sources))
    goes_on = _goes_on(getattr(mixture, "stopping_strategy", None))
    return Mixture(numbered(_names(sources)), weights if goes_on else None)


def _names(sources: Sequence[Any]) -> list[str]:
    """What each is called; a mixture by the names of all that it mixes."""
    read = [_read(source) for source in sources]
    paths = [first_path(getattr(one[0], "kwargs", None)) for one in read]
    known = [path for path in paths if path]
    names = [source_of_path(path or "") for path in paths]
    if len(known) == len(paths):
        names = names_of_paths(known)
    return [
        "+".join(dict.fromkeys(_names(one))) if len(one) > 1 else _given_name(one[0]) or name
        for one, name in zip(read, names, strict=True)
    ]


def _weights(probabilities: Any, sources: int) -> list[float]:
    return [1.0] * sources if probabilities is None else [float(one) for one in probabilities]


def _goes_on(strategy: str | None) -> bool:
    """Whether sources that have run out begin again, or end all."""
    return not (strategy or "").endswith("without_replacement")


def _given_name(leaf: Any) -> str | None:
    """Of what is read: the generator's, or the data set's on the hub."""
    make = getattr(leaf, "generate_examples_fn", None) or getattr(leaf, "generate_tables_fn", None)
    builder = getattr(make, "__self__", None)
    config = getattr(builder, "config", None)
    generator = getattr(getattr(config, "generator", None), "__name__", "").strip("<>")
    if generator:
        return generator
    name, part = getattr(builder, "dataset_name", None), getattr(config, "name", "default")
    if not isinstance(name, str) or name in _FORMATS:
        return None
    return name if str(part).startswith("default") else f"{name} {part}"


def _read(examples: Any) -> Sequence[Any]:
    """What a source reads itself, or all that it mixes."""
    below = _below(examples)
    while len(below) == 1:
        examples, below = below[0], _below(below[0])
    return below or [examples]


def _inside(sources: Sequence[Any]) -> Iterator[Any]:
    """Everything below some sources, and they themselves."""
    for source in sources:
        yield source
        yield from _inside(_below(source))


def _below(examples: Any) -> Sequence[Any]:
    if hasattr(examples, "ex_iterable"):
        return [examples.ex_iterable]
    return getattr(examples, "ex_iterables", [])
