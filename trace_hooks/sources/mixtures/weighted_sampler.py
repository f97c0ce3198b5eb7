"""What a WeightedRandomSampler plans of a ConcatDataset: the loader has both."""

from __future__ import annotations

from typing import Any

from torch.utils.data import ConcatDataset, WeightedRandomSampler

from trace_hooks.sources.mixtures.counting import Mixture
from trace_hooks.sources.mixtures.labels import source_names

MOST_WEIGHTS = 10_000_000
"""They are summed whenever the loader starts, which takes 5 ms."""


def mixture_of(loader: Any) -> Mixture | None:
    """The sources of a loader's dataset, with the sums of their weights; None of other loaders."""
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    is_weighted = isinstance(sampler, WeightedRandomSampler) and sampler.replacement
    if not is_weighted or not isinstance(loader.dataset, ConcatDataset):
        return None
    ends, weights = loader.dataset.cumulative_sizes, sampler.weights
    if weights.is_cuda or len(weights) != ends[-1] or len(weights) > MOST_WEIGHTS:
        return None
    begins = [0, *ends[:-1]]
    sums = [float(weights[begin:end].sum()) for begin, end in zip(begins, ends, strict=True)]
    return Mixture(source_names(loader.dataset.datasets), sums)
