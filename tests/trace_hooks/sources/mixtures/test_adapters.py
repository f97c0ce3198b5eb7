"""Samples by source and planned shares, of real ConcatDatasets and of fakes of other libraries."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, WeightedRandomSampler

from tests.trace_hooks.sources.mixtures.fake_libraries import (
    FAKES,
    FakeBlended,
    FakeCycling,
    FakeGenerator,
    FakeMix,
    FakePipeline,
    FakeRandomly,
    FakeSampler,
    FakeStream,
    FakeStreaming,
    FakeTable,
    import_fakes,
)
from tests.trace_hooks.tiny_models import Tracing, tracing
from tests.waiting import wait_until
from trace_hooks.sources.mixtures.draws import Draws
from trace_hooks.sources.training.described_batch import described

pytestmark = pytest.mark.torch

Mix = dict[str, tuple[int, float | None]]
"""Samples and planned share by source."""


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    import_fakes(monkeypatch)


class Source(Dataset[int]):
    """Numbers from `first` on."""

    def __init__(self, source: str, first: int) -> None:
        self.source, self.first = source, first

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        return self.first + index


def recorded(traced: Tracing) -> Mix:
    """Of all rows of batch_sources."""
    traced.source("data").step_end()
    found: Mix = {}
    for row in traced.rows("batch_sources"):
        samples = found.get(row["source"], (0, None))[0] + row["samples"]
        found[row["source"]] = samples, row["planned"]
    return found


def drawn(make: Any, context: str | None = None) -> tuple[list[Any], Mix]:
    """Batches of a loader of `make()`, and what was recorded of them."""
    workers: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": context}
    with tracing("data") as traced:
        loader = DataLoader(make(), 4, **(workers if context else {}))
        batches = [batch.tolist() for batch in loader]
        rows = len(batches)
        if context:
            source = traced.source("data")
            wait_until(lambda: source.poll() or len(traced.rows("loader_fetches")) >= rows)
        return batches, recorded(traced)


def generators(first: int = 0) -> list[FakeGenerator]:
    return [
        FakeGenerator(name, list(range(100 * place, 100 * place + 9)))
        for place, name in enumerate(("web", "code"), first)
    ]


def interleaved_tables() -> Any:
    tables = [FakeTable(list(range(first, first + 4))) for first in (0, 100)]
    interleave = sys.modules["datasets.combine"]._interleave_map_style_datasets
    return interleave(tables, [0.75, 0.25])


def pipelines() -> list[FakePipeline]:
    return [
        FakePipeline([f"data/{name}-000000.tar"], list(range(first, first + 6)))
        for name, first in (("web", 0), ("code", 100))
    ]


CASES: list[tuple[Any, Mix]] = [
    (lambda: FakeStream(FakeRandomly(generators())), {"web": (9, 0.75), "code": (3, 0.25)}),
    (lambda: FakeStream(FakeCycling(generators())), {"web": (9, 0.5), "code": (9, 0.5)}),
    (
        lambda: FakeStream(FakeCycling(generators(), "all_exhausted_without_replacement")),
        {"web": (9, None), "code": (9, None)},
    ),
    (interleaved_tables, {"source 0": (4, 0.75), "source 1": (4, 0.25)}),
    (lambda: FakeMix(pipelines(), [2, 1]), {"web": (6, 2 / 3), "code": (3, 1 / 3)}),
    (lambda: FakeMix(pipelines(), [2, 1], True), {"web": (6, None), "code": (3, None)}),
    (lambda: FakePipeline(["x/web-1.tar", "x/web-2.tar"], [1, 2]), {"web": (4, None)}),
    (FakeStreaming, {"web": (6, 0.75), "code": (2, 0.25)}),
    (lambda: FakeStreaming(shuffle=False), {"web": (6, None), "code": (2, None)}),
    (FakeBlended, {"web_text_document": (3, 0.75), "code_text_document": (1, 0.25)}),
]


@pytest.mark.parametrize("context", [None, "fork"])
@pytest.mark.parametrize(("make", "mix"), CASES)
def test_a_fake_of_each_library(make: Any, mix: Mix, context: str | None) -> None:
    plain = [batch.tolist() for batch in DataLoader(make(), 4)]
    batches, found = drawn(make, context)
    assert batches == plain
    assert found == {name: (n, pytest.approx(share)) for name, (n, share) in mix.items()}


@pytest.mark.parametrize("make", [make for make, _ in CASES])
def test_batches_are_the_same_where_counting_fails(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a hook's own")

    plain = [batch.tolist() for batch in DataLoader(make(), 4)]
    for name in ("add", "plan"):
        monkeypatch.setattr(Draws, name, fail)
        assert drawn(make)[0] == plain


def test_nodes_of_a_fake_torchdata() -> None:
    with tracing("data") as traced:
        sampler = FakeSampler()
        assert [sampler.next() for _ in range(4)] == [1, 2, 3, 4]
        assert recorded(traced) == {"web": (3, 0.75), "code": (1, 0.25)}
        other = FakeSampler("all")
        other.next()
        assert Draws.current is not None
        assert Draws.current.take() == {"web": 1}


def test_of_a_mixture_of_mixtures_the_outermost_counts() -> None:
    inner = FakeCycling(generators())
    nested = FakeRandomly([inner, FakeGenerator("books", [7, 8])])
    assert drawn(lambda: FakeStream(nested))[1] == {"web+code": (8, 0.75), "books": (2, 0.25)}
    mixes = FakeMix([FakeMix(pipelines()), FakePipeline(["x/books-0.tar"], [1])])
    assert set(drawn(lambda: mixes)[1]) == {"web", "books"}


def test_rows_of_arrow_tables_count() -> None:
    with tracing("data") as traced:
        for _ in FakeRandomly(generators())._iter_arrow():
            pass
        assert recorded(traced) == {"web": (18, 0.75), "code": (6, 0.25)}


def test_a_table_that_was_not_watched_is_left_alone() -> None:
    assert drawn(lambda: FakeTable([1, 2, 3, 4])) == ([[1, 2, 3, 4]], {})


def test_a_table_remembers_its_sources_while_its_order_is_known() -> None:
    with tracing("data"):
        assert Draws.current is not None
        shuffled = interleaved_tables()._select_with_indices_mapping([7, 0, 2])
        other = copy.deepcopy(shuffled)  # as with_format does
        assert other[[0, -1]] == [103, 1]
        assert Draws.current.take() == {"source 0": 1, "source 1": 1}
        other._indices = None  # its rows are in another order now
        assert other[0] == 103
        assert Draws.current.take() == {}


@pytest.mark.sampled
@pytest.mark.parametrize("context", ["fork", None, "spawn"])
def test_a_weighted_sampler_of_a_concat_dataset(context: str | None) -> None:
    weights = torch.tensor([3.0] * 40 + [1.0] * 40)
    mixture = ConcatDataset([Source("web", 0), Source("code", 1_000)])

    def loader() -> Iterable[torch.Tensor]:
        torch.manual_seed(3)
        sampler = WeightedRandomSampler(weights.tolist(), 64)
        workers = {"num_workers": 2, "multiprocessing_context": context} if context else {}
        return DataLoader(mixture, 4, sampler=sampler, **workers)  # type: ignore[arg-type]

    plain = [batch.tolist() for batch in loader()]
    by_hand = sum(number < 1_000 for batch in plain for number in batch)
    with tracing("data") as traced:
        assert [batch.tolist() for batch in loader()] == plain
        fetches = lambda: {(r["worker"], r["fetch"]) for r in traced.rows("loader_fetches")}  # noqa: E731
        if context:
            wait_until(lambda: traced.source("data").poll() or len(fetches()) == 16)
        assert recorded(traced) == {"web": (by_hand, 0.75), "code": (64 - by_hand, 0.25)}


def test_what_the_job_states_goes_before() -> None:
    with tracing("data") as traced:
        for _ in DataLoader(ConcatDataset([Source("web", 0), Source("code", 0)]), 40):
            traced.source("data").describe(described(None, "books", None))
        assert recorded(traced) == {"books": (2, None)}


def test_a_version_that_cannot_be_read_works_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {name: ModuleType(name) for name in FAKES}
    for name, module in changed.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(changed["streaming.base.dataset"], "StreamingDataset", Odd, raising=False)
    plain = [batch.tolist() for batch in DataLoader(Odd(), 4)]
    assert drawn(Odd) == (plain, {})


class Odd(FakeStreaming):
    """Without offsets."""

    def __init__(self) -> None:
        super().__init__()
        del self.sample_offset_per_stream

    def get_item(self, sample_id: int, retry: int = 7) -> int:
        return -sample_id


def test_errors_of_a_source_pass() -> None:
    class Broken(FakePipeline):
        def __iter__(self) -> Iterator[int]:
            raise KeyError("the user's own")

    with tracing("data"), pytest.raises(KeyError, match="the user's own"):
        next(iter(DataLoader(FakeMix([Broken([], [])]))))


def test_all_is_put_back() -> None:
    owners = [(FakeCycling, "__iter__"), (FakeMix, "__iter__"), (ConcatDataset, "__getitem__")]
    before = [vars(owner)[name] for owner, name in owners]
    with tracing("data"):
        assert all(vars(o)[n] is not was for (o, n), was in zip(owners, before, strict=True))
    assert all(vars(o)[n] is was for (o, n), was in zip(owners, before, strict=True))
    assert Draws.current is None
