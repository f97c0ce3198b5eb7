"""Small fakes of libraries that the project does not install: as much of each as its adapter reads,
written after datasets 5.2, webdataset 1.0, mosaicml-streaming 0.13, torchdata 0.11 and
megatron-core 0.16. benchmarks/loader_sources.py runs the real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import cycle
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import Dataset, IterableDataset


class FakeGenerator:
    """Examples of one source, which a function generates."""

    def __init__(self, name: str, numbers: list[int]) -> None:
        def generate() -> None:
            """Its name is the source's."""

        generate.__name__ = name
        self.numbers, self.kwargs = numbers, {}
        builder = FakeBuilder(SimpleNamespace(generator=generate, name="default"))
        self.generate_examples_fn = builder.generate

    def __iter__(self) -> Iterator[tuple[int, int]]:
        yield from enumerate(self.numbers)


class FakeBuilder:
    """Of a generator."""

    dataset_name = "generator"

    def __init__(self, config: Any) -> None:
        self.config = config

    def generate(self) -> None:
        """Its examples."""


class FakeCycling:
    """CyclingMultiSourcesExamplesIterable."""

    def __init__(self, ex_iterables: list[Any], stopping_strategy: str = "first_exhausted") -> None:
        self.ex_iterables, self.stopping_strategy = ex_iterables, stopping_strategy

    def _get_indices_iterator(self) -> Iterator[int]:
        yield from cycle(range(len(self.ex_iterables)))

    def __iter__(self) -> Iterator[Any]:
        yield from self._examples()

    def _examples(self) -> Iterator[Any]:
        iterators = [iter(one) for one in self.ex_iterables]
        for place in self._get_indices_iterator():
            example = next(iterators[place], None)
            if example is None:
                return
            yield example

    def _iter_arrow(self) -> Iterator[Any]:
        for key, number in self._examples():
            yield key, SimpleNamespace(num_rows=2, number=number)


class FakeRandomly(FakeCycling):
    """RandomlyCyclingMultiSourcesExamplesIterable, which is not random."""

    probabilities = (0.75, 0.25)

    def _get_indices_iterator(self) -> Iterator[int]:
        yield from cycle((0, 0, 1, 0))


class FakeStream(IterableDataset[int]):
    """IterableDataset of Hugging Face."""

    def __init__(self, examples: Any) -> None:
        self.examples = examples

    def __iter__(self) -> Iterator[int]:
        for _, number in self.examples:
            yield number


class FakeIndices:
    """A table with one column, of indices."""

    def __init__(self, order: list[int]) -> None:
        self.order = order

    def column(self, _: int) -> list[Any]:
        """Its values."""
        return [SimpleNamespace(as_py=lambda row=row: row) for row in self.order]


class FakeTable(Dataset[int]):
    """Dataset of Hugging Face: all rows, and an order of them."""

    def __init__(self, numbers: list[int], order: list[int] | None = None) -> None:
        self.info = SimpleNamespace(dataset_name=None)
        self.numbers = numbers
        self._indices = None if order is None else FakeIndices(order)
        self.order = list(range(len(numbers))) if order is None else order

    def __len__(self) -> int:
        return len(self.order)

    def _getitem(self, key: Any) -> Any:
        keys = key if isinstance(key, list) else [key]
        found = [self.numbers[self.order[one]] for one in keys]
        return found if isinstance(key, list) else found[0]

    def __getitem__(self, key: Any) -> Any:
        return self._getitem(key)

    def __getitems__(self, keys: list[int]) -> Any:
        return self[keys]

    def _select_with_indices_mapping(self, keys: list[int]) -> FakeTable:
        return FakeTable(self.numbers, [self.order[key] for key in keys])


def fake_interleave(datasets: list[FakeTable], probabilities: Any = None, **_: Any) -> FakeTable:
    """_interleave_map_style_datasets: the rows of both in turn."""
    numbers = [number for one in datasets for number in one.numbers]
    half = len(numbers) // 2
    return FakeTable(numbers, [row for pair in range(half) for row in (pair, half + pair)])


class FakeMix(IterableDataset[int]):
    """RandomMix of webdataset, which takes two of the first and one of the second."""

    def __init__(self, datasets: list[Any], probs: Any = None, longest: bool = False) -> None:
        self.datasets, self.probs, self.longest = datasets, probs, longest

    def __iter__(self) -> Iterator[int]:
        sources = [iter(one) for one in self.datasets]
        for place in cycle((0, 0, 1)):
            try:
                yield next(sources[place % len(sources)])
            except StopIteration:
                return


class FakePipeline(IterableDataset[int]):
    """DataPipeline of webdataset: shards, then samples of them, then numbers."""

    def __init__(self, urls: list[str], numbers: list[int]) -> None:
        def group_by_keys(shards: Any) -> Iterator[dict[str, Any]]:
            for url in shards.urls:
                for number in numbers:
                    yield {"__key__": str(number), "__url__": url, "n": number}

        self.pipeline = [SimpleNamespace(urls=urls), SimpleNamespace(f=group_by_keys)]

    def invoke(self, stage: Any, *args: Any) -> Any:
        """Run a stage."""
        return stage.f(*args)

    def __iter__(self) -> Iterator[int]:
        for sample in self.invoke(self.pipeline[1], self.pipeline[0]):
            yield sample["n"]


class FakeStreaming(Dataset[int]):
    """StreamingDataset of MosaicML."""

    def __init__(self, shuffle: bool = True) -> None:
        chosen = {"s3://a/web/mds": 6, "s3://a/code/mds": 2}
        self.streams = [SimpleNamespace(remote=name, choose=n) for name, n in chosen.items()]
        self.sample_offset_per_stream = [0, 6]
        self.shuffle = shuffle

    def get_item(self, sample_id: int, retry: int = 7) -> int:
        """A sample."""
        return sample_id

    def __getitem__(self, index: int) -> int:
        return self.get_item(index)

    def __len__(self) -> int:
        return 8


class FakeSampler:
    """MultiNodeWeightedSampler of torchdata."""

    def __init__(self, stop_criteria: str = "first") -> None:
        self.weights, self.stop_criteria = {"web": 3.0, "code": 1.0}, stop_criteria
        self._weighted_sampler = SimpleNamespace(_batch_of_indices=[0, 0, 1, 0], _offset=0)

    def next(self) -> int:
        """A sample."""
        self._weighted_sampler._offset += 1
        return self._weighted_sampler._offset


class FakeBlended(Dataset[int]):
    """BlendedDataset of Megatron-core."""

    def __init__(self) -> None:
        names = ("data/web_text_document", "data/code_text_document")
        self.datasets = [SimpleNamespace(dataset_path=name) for name in names]
        self.weights, self.dataset_index = [0.75, 0.25], [0, 0, 1, 0]

    def __len__(self) -> int:
        return 4

    def __getitem__(self, idx: int) -> int:
        return idx


FAKES: dict[str, dict[str, Any]] = {
    "datasets.iterable_dataset": {
        "CyclingMultiSourcesExamplesIterable": FakeCycling,
        "RandomlyCyclingMultiSourcesExamplesIterable": FakeRandomly,
    },
    "datasets.combine": {"_interleave_map_style_datasets": fake_interleave},
    "datasets.arrow_dataset": {"Dataset": FakeTable},
    "webdataset.mix": {"RandomMix": FakeMix},
    "webdataset.pipeline": {"DataPipeline": FakePipeline},
    "streaming.base.dataset": {"StreamingDataset": FakeStreaming},
    "torchdata.nodes.samplers.multi_node_weighted_sampler": {
        "MultiNodeWeightedSampler": FakeSampler,
        "StopCriteria": SimpleNamespace(ALL_DATASETS_EXHAUSTED="all"),
    },
    "megatron.core.datasets.blended_dataset": {"BlendedDataset": FakeBlended},
}


def import_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the job had imported them."""
    for name, members in FAKES.items():
        module = ModuleType(name)
        for member, value in members.items():
            setattr(module, member, value)
        monkeypatch.setitem(sys.modules, name, module)
