"""Adapters of torch, Megatron-core, MosaicML Streaming, torchdata and webdataset.

A plan is left out where the library itself gives it up: sources that are left out once they have
run out, or that come one after the other.
"""

from __future__ import annotations

import bisect
import copy
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from trace_hooks.sources.mixtures.counting import Mixture, Replace, count, counted, names_of, timed
from trace_hooks.sources.mixtures.draws import UNHARMED, Draws
from trace_hooks.sources.mixtures.labels import (
    first_path,
    names_of_files,
    names_of_paths,
    source_names,
    source_of_path,
)


def concatenated(module: Any, replace: Replace) -> None:
    """ConcatDataset of torch; weighted_sampler.py knows what is planned of it."""

    def look(mixture: Any) -> Mixture:
        return Mixture(source_names(mixture.datasets), None)

    def source_of(mixture: Any, index: int) -> str:
        index += len(mixture) if index < 0 else 0
        return names_of(mixture, look)[bisect.bisect_right(mixture.cumulative_sizes, index)]

    replace(module.ConcatDataset, "__getitem__", timed(source_of))


def blended(module: Any, replace: Replace) -> None:
    """BlendedDataset of Megatron-core."""

    def look(mixture: Any) -> Mixture:
        paths = [getattr(dataset, "dataset_path", None) for dataset in mixture.datasets]
        return Mixture(names_of_files(paths, mixture.datasets), mixture.weights)

    def source_of(mixture: Any, index: int) -> str | None:
        if mixture.dataset_index is None:  # it reads the index with its first sample
            return None
        return names_of(mixture, look)[mixture.dataset_index[index]]

    replace(module.BlendedDataset, "__getitem__", timed(source_of))


def streaming(module: Any, replace: Replace) -> None:
    """StreamingDataset of MosaicML. Where it does not shuffle, one stream follows the other."""

    def look(mixture: Any) -> Mixture:
        paths = [stream.remote or stream.local for stream in mixture.streams]
        weights = [stream.choose for stream in mixture.streams]
        return Mixture(names_of_paths(paths), weights if mixture.shuffle else None)

    def source_of(mixture: Any, sample: int, *_: Any, **__: Any) -> str:
        place = bisect.bisect_right(mixture.sample_offset_per_stream, sample) - 1
        return names_of(mixture, look)[place]

    replace(module.StreamingDataset, "get_item", counted(source_of))


def weighted_nodes(module: Any, replace: Replace) -> None:
    """MultiNodeWeightedSampler of torchdata."""

    def look(mixture: Any) -> Mixture:
        goes_on = mixture.stop_criteria != module.StopCriteria.ALL_DATASETS_EXHAUSTED
        return Mixture(list(mixture.weights), list(mixture.weights.values()) if goes_on else None)

    def source_of(mixture: Any) -> str:
        drawn = mixture._weighted_sampler
        return names_of(mixture, look)[drawn._batch_of_indices[drawn._offset - 1]]

    replace(module.MultiNodeWeightedSampler, "next", counted(source_of))


def web_mixes(module: Any, replace: Replace) -> None:
    """RandomMix and RoundRobin of webdataset. In place of the datasets of a mixture, a copy of it
    iterates ones that count.
    """

    def look(mixture: Any) -> Mixture:
        paths = [_shard(dataset) for dataset in mixture.datasets]
        names = names_of_files(paths, mixture.datasets)
        weights = getattr(mixture, "probs", None)
        equal = [1.0] * len(names) if weights is None else weights
        return Mixture(names, None if mixture.longest else equal)

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def iterate(mixture: Any) -> Any:
            counting, draws = mixture, Draws.current
            if draws is not None and not draws.is_inside:
                with UNHARMED:
                    pairs = zip(mixture.datasets, names_of(mixture, look), strict=True)
                    counting = copy.copy(mixture)
                    counting.datasets = [_Counted(dataset, name) for dataset, name in pairs]
            return original(counting)

        return iterate

    for name in ("RandomMix", "RoundRobin"):
        if hasattr(module, name):
            replace(getattr(module, name), "__iter__", make)


def web_pipelines(module: Any, replace: Replace) -> None:
    """Pipelines of webdataset, by the file of each sample, where they are in no mixture."""
    named = functools.lru_cache(source_of_path)

    def source_of(sample: Any) -> str:
        return named(sample["__url__"])

    def samples(found: Iterable[Any]) -> Iterator[Any]:
        for sample in found:
            count(source_of, sample)
            yield sample

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def invoke(pipeline: Any, stage: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(pipeline, stage, *args, **kwargs)
            is_made = getattr(getattr(stage, "f", stage), "__name__", "") in _MAKE_SAMPLES
            return samples(found) if is_made else found

        return invoke

    replace(module.DataPipeline, "invoke", make)


_MAKE_SAMPLES = ("group_by_keys", "tarfile_samples")
"""Stages that make samples of the files in an archive."""


class _Counted:
    """A dataset of a mixture, whose samples count as those of `source`."""

    def __init__(self, dataset: Iterable[Any], source: str) -> None:
        self._dataset, self._source = dataset, source

    def __iter__(self) -> Iterator[Any]:
        samples = None
        while True:
            draws = Draws.current
            is_outermost = draws is not None and draws.enter()
            try:
                samples = iter(self._dataset) if samples is None else samples
                sample = next(samples)
            except StopIteration:
                return
            finally:
                if draws is not None and is_outermost:
                    draws.leave()
            if draws is not None and is_outermost:
                with UNHARMED:
                    draws.add(self._source)
            yield sample


def _shard(dataset: Any) -> str | None:
    """Path of the first file of a pipeline, or of the first one of a mixture."""
    first = getattr(dataset, "pipeline", [dataset])[0]
    inside = getattr(first, "datasets", None)
    return _shard(inside[0]) if inside else first_path(getattr(first, "urls", None))
