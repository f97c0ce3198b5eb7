import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, dataloader

from tests.trace_hooks.tiny_models import tracing
from trace_hooks.sources.training.data_loader import num_tokens


class Slow(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.01)
        return torch.full((3,), index)


class Numbers(IterableDataset):
    def __iter__(self):
        yield from torch.arange(3)


def test_without_workers_the_span_is_the_fetching_itself():
    with tracing("data") as traced:
        batches = [b.tolist() for b in DataLoader(Slow(), batch_size=2)]
        assert batches == [[[0] * 3, [1] * 3], [[2] * 3, [3] * 3]]
        spans, rows = traced.spans("data_fetch"), traced.rows("data_batches")
        assert [(s.kind, s.name) for s in spans] == [("data_fetch", "Slow")] * 2
        assert [(s.kind, s.name) for s in traced.spans("data_wait")] == [
            ("data_wait", "Slow start")
        ]
        for span, row in zip(spans, rows, strict=True):
            assert row["fetch_ns"] == row["exposed_ns"] >= 20_000_000
            assert abs(span.row.end_ns - span.row.begin_ns - row["fetch_ns"]) < 1_000_000
            assert row["source"] == "Slow"
            assert (row["tokens"], row["sum_sq_len"]) == (6, -1)


@pytest.mark.torch
@pytest.mark.parametrize("context", ["fork"])
def test_with_workers_the_span_is_the_wait_and_workers_record_nothing(context: str):
    with tracing("data") as traced:
        loader = DataLoader(
            Slow(), 2, num_workers=1, persistent_workers=True, multiprocessing_context=context
        )
        for _ in range(2):
            assert sum(len(b) for b in loader) == 4
        rows = traced.rows("data_batches")
        waits = [s.name for s in traced.spans("data_wait")]
        assert waits == ["Slow start", "Slow", "Slow"] * 2
        assert [row["fetch_ns"] for row in rows] == [-1] * 4
        assert all(row["exposed_ns"] > 0 for row in rows)
        del loader


def test_iterable_datasets_end_as_ever():
    with tracing("data") as traced:
        iterator = iter(DataLoader(Numbers(), batch_size=2))
        assert [b.tolist() for b in iterator] == [[0, 1], [2]]
        with pytest.raises(StopIteration):
            next(iterator)
        assert len(traced.spans("data_fetch")) == 2


def test_an_error_of_the_dataset_passes_and_nothing_is_recorded():
    class Broken(Slow):
        def __getitem__(self, index: int):
            raise KeyError("the user's own")

    with tracing("data") as traced:
        with pytest.raises(KeyError, match="the user's own"):
            next(iter(DataLoader(Broken())))
        assert not traced.spans("data_fetch")


def test_batches_are_the_same_objects_with_and_without():
    data = TensorDataset(torch.arange(8.0))
    torch.manual_seed(1)
    plain = [b[0].tolist() for b in DataLoader(data, batch_size=3, shuffle=True)]
    with tracing("data"):
        torch.manual_seed(1)
        assert [b[0].tolist() for b in DataLoader(data, batch_size=3, shuffle=True)] == plain


@pytest.mark.parametrize(
    ("batch", "tokens"),
    [
        (torch.ones(2, 5, dtype=torch.int64), 10),
        ({"input_ids": torch.ones(2, 5, dtype=torch.int32), "labels": torch.ones(9)}, 10),
        ((torch.ones(2, 5, dtype=torch.int64), torch.ones(2)), 10),
        (torch.ones(2, 3, 4, 4), -1),
        (torch.ones(7, dtype=torch.int64), -1),
        ({"pixels": torch.ones(2, 2)}, -1),
        ([], -1),
        ("text", -1),
        (None, -1),
    ],
)
def test_tokens_are_counted_where_obvious(batch, tokens: int):
    assert num_tokens(batch) == tokens


def test_uninstall_restores_both_methods():
    owners = ((dataloader._BaseDataLoaderIter, "__next__"), (DataLoader, "__iter__"))
    before = [vars(owner)[name] for owner, name in owners]
    with tracing("data"):
        assert all(vars(o)[n] is not was for (o, n), was in zip(owners, before, strict=True))
    assert all(vars(o)[n] is was for (o, n), was in zip(owners, before, strict=True))
