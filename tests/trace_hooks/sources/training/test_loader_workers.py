"""What the workers of real loaders fetch, as their rank records it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset

import trace_hooks as th
from tests.trace_hooks.tiny_models import tracing
from tests.waiting import wait_until
from trace_hooks.sources.mixtures.labels import source_names
from trace_hooks.sources.training import loader_workers
from trace_hooks.sources.training.loader_workers import proportional_bytes, resident_bytes

pytestmark = pytest.mark.torch

SLEEP_S, BURN_S = 0.02, 0.03


class Slept(Dataset[torch.Tensor]):
    """Waits for each sample, as for a file; one in four is decoded."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SLEEP_S)
        if index % 4 == 0:
            with th.transform("decode"):
                until_s = time.thread_time() + BURN_S
                while time.thread_time() < until_s:
                    pass
        return torch.full((3,), index)


class Streamed(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(3):
            Path("/proc/self/maps").read_bytes()
            yield torch.tensor(number)


class Broken(Slept):
    def __getitem__(self, index: int) -> torch.Tensor:
        raise KeyError("the user's own")


def note(worker: int) -> None:
    """A user's own worker_init_fn."""
    os.environ["WORKER_OF_THE_TEST"] = str(worker)


class Noted(Slept):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(int(os.environ["WORKER_OF_THE_TEST"]))


def fetches(traced: Any, number: int) -> list[dict[str, Any]]:
    source = traced.source("data")
    wait_until(lambda: source.poll() or len(traced.rows("loader_fetches")) >= number)
    rows: list[dict[str, Any]] = traced.rows("loader_fetches")
    return rows


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the rings are: in a folder that no other test uses."""
    monkeypatch.setattr(loader_workers, "_SHARED_MEMORY", tmp_path)
    return tmp_path


@pytest.mark.sampled
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_say_how_long_each_fetch_took_and_what_it_did(
    context: str, shared_memory: Path
) -> None:
    with tracing("data") as traced:
        loader = DataLoader(Slept(), 2, num_workers=2, multiprocessing_context=context)
        batches = [batch.tolist() for batch in loader]
        rows = fetches(traced, 4)
        assert loader.worker_init_fn is None
    assert batches == [[[index] * 3 for index in (first, first + 1)] for first in (0, 2, 4, 6)]
    assert sorted((row["worker"], row["samples"]) for row in rows) == [
        (0, 2),
        (0, 2),
        (1, 2),
        (1, 2),
    ]
    assert len({row["pid"] for row in rows}) == 2
    for row in rows:
        assert row["source"] == "Slept"
        assert row["wall_ns"] >= 2 * SLEEP_S * 1e9
        decodes = row["worker"] == 0  # samples 0 and 4
        assert (row["transform"] == "decode") == decodes
        assert (row["transform_ns"] >= BURN_S * 1e9) == decodes
        assert row["cpu_ns"] >= BURN_S * 1e9 * decodes
        assert 0 < time.perf_counter_ns() - row["ts_ns"] < 120e9
        assert row["read_bytes"] >= 0
    assert list(shared_memory.iterdir()) == []


def test_workers_of_an_iterable_dataset() -> None:
    with tracing("data") as traced:
        assert [b.tolist() for b in DataLoader(Streamed(), 2, num_workers=1)] == [[0, 1], [2]]
        rows = fetches(traced, 2)
    assert [(row["source"], row["samples"]) for row in rows] == [("Streamed", 2)] * 2
    assert all(row["read_bytes"] > 1_000 for row in rows)


class Quick(Slept):
    """A dataset with a name of its own."""

    source = "web"

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((3,), -index)


def test_datasets_of_a_mixture_are_told_apart() -> None:
    mixture = ConcatDataset([Quick(), ConcatDataset([Slept(), Slept()])])
    with tracing("data") as traced:
        loader = DataLoader(mixture, batch_sampler=[[1, 9], [2, 3], [8, 17]], num_workers=1)
        assert [batch[:, 0].tolist() for batch in loader] == [[-1, 1], [-2, -3], [0, 1]]
        rows = fetches(traced, 4)
    seen = [(row["fetch"], row["source"], row["samples"]) for row in rows]
    assert seen == [
        (1, "web", 1),
        (1, "ConcatDataset", 1),
        (2, "web", 2),
        (3, "ConcatDataset", 2),
    ]
    quick, slow = rows[0], rows[3]
    assert quick["wall_ns"] < SLEEP_S * 1e9 < 2 * SLEEP_S * 1e9 <= slow["wall_ns"]
    assert (quick["transform"], slow["transform"]) == ("", "decode")
    assert slow["transform_ns"] >= BURN_S * 1e9


def test_names_of_sources() -> None:
    quick, slept = Quick(), Slept()
    assert source_names([quick, slept, slept]) == ["web", "Slept 0", "Slept 1"]


def test_the_users_own_function_runs_and_stays() -> None:
    with tracing("data") as traced:
        loader = DataLoader(Noted(), 2, num_workers=2, worker_init_fn=note)
        assert [batch.tolist() for batch in loader] == [[0, 0], [1, 1], [0, 0], [1, 1]]
        assert loader.worker_init_fn is note
        assert len(fetches(traced, 4)) == 4


def test_workers_that_persist_are_recorded_in_every_epoch() -> None:
    with tracing("data") as traced:
        loader = DataLoader(Slept(), 4, num_workers=1, persistent_workers=True)
        for _ in range(2):
            assert len(list(loader)) == 2
        rows = fetches(traced, 4)
        assert {(row["loader"], row["worker"]) for row in rows} == {(rows[0]["loader"], 0)}
        assert loader.worker_init_fn is None


def test_an_error_of_the_dataset_passes() -> None:
    with tracing("data") as traced:
        with pytest.raises(KeyError, match="the user's own"):
            next(iter(DataLoader(Broken(), num_workers=1)))
        assert traced.source("data").poll() is None
        assert traced.rows("loader_fetches") == []


def test_without_room_for_a_ring_the_loader_works_as_ever(
    monkeypatch: pytest.MonkeyPatch, shared_memory: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    with tracing("data") as traced:
        monkeypatch.setattr(loader_workers.FetchRing, "create", full)
        loader = DataLoader(Slept(), 4, num_workers=1)
        assert len(list(loader)) == 2
        traced.source("data").poll()
        assert traced.rows("loader_fetches") == []
    assert list(shared_memory.iterdir()) == []


def test_a_loader_that_takes_no_other_function_works_as_ever(shared_memory: Path) -> None:
    class Fixed(DataLoader[torch.Tensor]):
        @property
        def worker_init_fn(self) -> None:
            return None

        @worker_init_fn.setter
        def worker_init_fn(self, value: object) -> None:
            if value is not None:
                raise AttributeError("it is fixed")

    with tracing("data") as traced:
        assert len(list(Fixed(Slept(), 4, num_workers=1))) == 2
        assert [span.name for span in traced.spans("data_wait")] == [
            "Slept start",
            "Slept",
            "Slept",
        ]
    assert list(shared_memory.iterdir()) == []


def test_how_many_batches_were_ready() -> None:
    with tracing("data") as traced:
        iterator = iter(DataLoader(Slept(), 1, num_workers=2, prefetch_factor=2))
        next(iterator)
        time.sleep(1.0)
        next(iterator)
        list(iterator)
        traced.source("data").step_end()
        ready = [row["ready"] for row in traced.rows("data_batches")]
        assert ready[1] >= 3  # of four under way, one was handed out and one begun
        assert ready[-1] == 0
        list(DataLoader(Slept(), 8))
        traced.source("data").step_end()
        assert traced.rows("data_batches")[-1]["ready"] is None


def test_memory_of_all_workers_and_the_share_of_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader_workers, "MEMORY_EVERY_S", 0.0)
    monkeypatch.setattr(loader_workers, "SHARE", 1.0)
    with tracing("data") as traced:
        iterator = iter(DataLoader(Slept(), 1, num_workers=2))
        next(iterator)
        source = traced.source("data")

        def walked() -> set[int]:
            source.poll()
            return {r["worker"] for r in traced.rows("loader_memory") if r["pss_bytes"] >= 0}

        wait_until(lambda: walked() == {0, 1})
        rows = traced.rows("loader_memory")
        assert all(row["rss_bytes"] > 1 << 20 for row in rows)
        assert all(row["pss_bytes"] <= row["rss_bytes"] for row in rows)
        monkeypatch.setattr(loader_workers, "SHARE", 1e-9)  # walking costs too much from now on
        source.poll()
        num_rows = len(traced.rows("loader_memory"))
        for _ in range(3):
            source.poll()
        assert all(r["pss_bytes"] < 0 for r in traced.rows("loader_memory")[num_rows:])
        list(iterator)


def test_memory_where_the_system_says_less(tmp_path: Path) -> None:
    assert resident_bytes(7, tmp_path) is None
    (tmp_path / "7").mkdir()
    (tmp_path / "7/statm").write_text("90 30 2 1 0 9 0\n")
    assert resident_bytes(7, tmp_path) == 30 * os.sysconf("SC_PAGE_SIZE")
    assert proportional_bytes(7, tmp_path) == -1
    (tmp_path / "7/smaps_rollup").write_text("a\nRss: 120 kB\nPss:   60 kB\n")
    assert proportional_bytes(7, tmp_path) == 60 * 1024


def test_outside_of_a_worker_a_transform_does_nothing() -> None:
    with th.transform("decode"):
        pass
