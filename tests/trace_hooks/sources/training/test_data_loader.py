import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, dataloader

import trace_hooks as th
from tests.trace_hooks.tiny_models import tracing
from tests.trace_hooks.tracers import rows
from trace_hooks.sources.training.batch_tokens import ids_hash, num_tokens
from trace_hooks.sources.training.described_batch import described


def batch_rows(traced):
    """Rows of all batches: that of the newest one comes with the end of a step."""
    traced.source("data").step_end()
    return traced.rows("data_batches")


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
        spans, rows = traced.spans("data_fetch"), batch_rows(traced)
        assert [(s.kind, s.name) for s in spans] == [("data_fetch", "Slow")] * 2
        assert [(s.kind, s.name) for s in traced.spans("data_wait")] == [
            ("data_wait", "Slow start")
        ]
        for span, row in zip(spans, rows, strict=True):
            assert row["fetch_ns"] == row["exposed_ns"] >= 20_000_000
            assert abs(span.row.end_ns - span.row.begin_ns - row["fetch_ns"]) < 1_000_000
            assert row["source"] == "Slow"
            assert (row["tokens"], row["sum_sq_len"]) == (6, -1)
        assert traced.steps.tokens == 12


@pytest.mark.torch
@pytest.mark.parametrize("context", ["fork"])
def test_with_workers_the_span_is_the_wait_and_workers_record_nothing(context: str):
    with tracing("data") as traced:
        loader = DataLoader(
            Slow(), 2, num_workers=1, persistent_workers=True, multiprocessing_context=context
        )
        for _ in range(2):
            assert sum(len(b) for b in loader) == 4
        rows = batch_rows(traced)
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


def test_what_the_job_states_of_a_batch():
    planned = {"web": 3, "code": 1}
    with tracing("data") as traced:
        source, batches = traced.source("data"), iter(DataLoader(Slow(), batch_size=2))
        traced.rank_state.step, traced.rank_state.phase = 4, "step"
        next(batches)
        source.describe(described([5, 7], ["web", "web"], planned))
        next(batches)
        source.describe(described(torch.tensor([3]), None, None))
        source.step_end()
        source.describe(described([[2], [2]], "code", None))  # no DataLoader made it
        rows, sources = batch_rows(traced), traced.rows("batch_sources")
        lengths = traced.rows("batch_lengths")
    assert [(row["tokens"], row["sum_sq_len"]) for row in rows] == [(12, 74), (3, 9), (4, 8)]
    assert [(row["microbatch"], list(row["lengths"])) for row in lengths] == [
        (-1, [5, 7]),
        (-1, [3]),
        (0, [2]),
        (1, [2]),
    ]
    assert [row["exposed_ns"] > 0 for row in rows] == [True, True, False]
    assert {row["step"] for row in rows} == {4}
    assert [(row["source"], row["samples"], row["planned"]) for row in sources] == [
        ("web", 2, 0.75),
        ("code", 0, 0.25),
        ("code", 2, None),
    ]


@pytest.mark.parametrize(
    ("lengths", "source", "planned", "why"),
    [
        (["a"], None, None, "whole numbers"),
        ([[1], 2], None, None, "a list of them for each micro-batch"),
        (3, None, None, "whole numbers"),
        ([-1], None, None, "negative"),
        ([2**31], None, None, "at most 2147483647"),
        ([1], 3, None, "source is a name"),
        ([1], "web", [1], "planned has a weight"),
        ([1], "web", {"web": "many"}, "no number"),
        ([1], "web", {"web": 0}, "not all of them 0"),
        ([1], "web", {"web": -1, "code": 3}, "0 or more"),
        ([1], "web", {"web": float("nan")}, "0 or more"),
        (None, {str(n): 1 for n in range(1_001)}, None, "1001 sources"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(lengths, source, planned, why):
    with pytest.raises(ValueError, match=why):
        described(lengths, source, planned)


def test_a_job_describes_its_batch(tmp_path):
    tracer = th.start(tmp_path, sources=["data"])
    for batch in DataLoader(Slow(), batch_size=2):
        with tracer.step():
            tracer.batch(lengths=[len(row) for row in batch], source={"web": 2})
            tracer.batch(lengths="x")  # training goes on
            tracer.standby(lag_samples=7, snapshot_age_s=2)
            tracer.standby(lag_samples="many")  # training goes on
    tracer.stop()

    def column(table: str, name: str) -> list[object]:
        return [row[name] for row in rows(tmp_path, table)]

    assert column("data_batches", "sum_sq_len") == [18, 18]
    assert column("data_batches", "step") == [0, 1]
    assert column("batch_lengths", "lengths") == [[3, 3], [3, 3]]
    assert column("loader_standby", "lag_samples") == [7, 7]
    assert column("loader_standby", "snapshot_age_s") == [2.0, 2.0]


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


def test_equal_batches_have_the_same_hash_and_others_another():
    ids = torch.arange(4_000).reshape(4, 1_000)
    mask = torch.ones(4, 1_000, dtype=torch.int64)
    known = ids_hash({"labels": ids + 1, "input_ids": ids})
    assert known is not None
    assert known == ids_hash([mask.float(), ids.clone()]) == ids_hash(ids)
    assert ids_hash(ids + 1) != known
    assert ids_hash(ids.flatten()) != known
    assert ids_hash(ids[:, :-1]) is not None  # some of its first row
    assert ids_hash(ids.T) is None
    assert ids_hash({"loss_mask": mask}) is None  # the same in most batches
    assert [ids_hash(batch) for batch in (torch.ones(2, 2), "text", None, [], {})] == [None] * 5


def test_the_hash_of_a_batch_is_recorded():
    with tracing("data") as traced:
        list(DataLoader(TensorDataset(torch.arange(8)), batch_size=4))
        list(DataLoader(Slow(), batch_size=2))
        hashes = [row["ids_hash"] for row in batch_rows(traced)]
    assert len(set(hashes)) == 4
    assert hashes[0] == ids_hash(torch.arange(4))


def test_uninstall_restores_both_methods():
    owners = ((dataloader._BaseDataLoaderIter, "__next__"), (DataLoader, "__iter__"))
    before = [vars(owner)[name] for owner, name in owners]
    with tracing("data"):
        assert all(vars(o)[n] is not was for (o, n), was in zip(owners, before, strict=True))
    assert all(vars(o)[n] is was for (o, n), was in zip(owners, before, strict=True))
