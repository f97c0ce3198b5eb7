"""Which worker or source of a loader is slow and why, from answers made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.findings import Cost, Evidence, Finding, Place
from diagnosis.loading.explained import explained
from diagnosis.loading.workers import (
    QUESTION,
    Why,
    fetch_ms,
    slow_everywhere,
    why_slow,
    with_one_slow_worker,
)
from tests.diagnosis.answer_schema import answer_schema

_SCHEMA = answer_schema(
    "rank INTEGER, worker INTEGER, source VARCHAR, fetches BIGINT, samples BIGINT, "
    "sample_ms DOUBLE, sample_p99_ms DOUBLE, fetch_ms DOUBLE, cpu_ratio DOUBLE, "
    "transform_ratio DOUBLE, transform VARCHAR, read_mb DOUBLE"
)


def work(rank: int, worker: int, sample_ms: float, **changed: Any) -> dict[str, Any]:
    row = {"source": "Text", "fetches": 40, "samples": 320, "cpu_ratio": 0.9, "transform": ""}
    row |= {"sample_p99_ms": 2 * sample_ms, "fetch_ms": 8 * sample_ms, "transform_ratio": 0.0}
    return {
        "rank": rank,
        "worker": worker,
        "sample_ms": sample_ms,
        **row,
        "read_mb": None,
        **changed,
    }


def why(rows: list[dict[str, Any]], rank: int | None = 3) -> Why | None:
    return why_slow({QUESTION: pa.Table.from_pylist(rows, _SCHEMA)}, rank)


def named(rows: list[dict[str, Any]], rank: int | None = 3) -> tuple[str, str]:
    found = why(rows, rank)
    assert found is not None
    return found.who, found.does


USUAL = [work(rank, worker, 1.0) for rank in (0, 1, 2) for worker in (0, 1)]


def test_one_worker_of_the_rank() -> None:
    rows = [*USUAL, work(3, 0, 1.0), work(3, 1, 4.0, cpu_ratio=0.2, read_mb=2.0), work(3, 2, 1.1)]
    found = why(rows)
    assert found is not None
    assert found.sentence == (
        "Worker 1 takes 4.0 ms for a sample, 3.8 times as long as the rank's other workers: it "
        "waits for 80% of that (storage, network, a lock or a core); a sample reads 2.0 MB."
    )
    assert "storage" in found.next_step


def test_a_rank_whose_workers_are_all_slower_than_elsewhere() -> None:
    assert named([*USUAL, *(work(3, worker, 4.0) for worker in (0, 1))]) == (
        "Source Text",
        "it computes for 90% of that",
    )


def test_a_source_of_the_mixture() -> None:
    rows = [
        work(rank, worker, ms, source=source, cpu_ratio=0.1)
        for rank in (0, 3)
        for worker in (0, 1)
        for source, ms in (("web", 1.0), ("code", 5.0), ("books", 1.2))
    ]
    assert named(rows, None)[0] == "Source code"
    slower_here = [
        row | {"sample_ms": 9.0} if row["rank"] == 3 and row["source"] == "web" else row
        for row in rows
    ]
    assert named(slower_here)[0] == "Source web"  # code is as slow on other ranks


@pytest.mark.parametrize(
    ("changed", "does"),
    [
        ({"transform": "tokenize", "transform_ratio": 0.7}, "most of it in transform tokenize"),
        ({"transform": "tokenize", "transform_ratio": 0.2}, "it computes for 90% of that"),
        ({"cpu_ratio": 0.3}, "it waits for 70% of that (storage, network, a lock or a core)"),
    ],
)
def test_what_the_time_goes_into(changed: dict[str, Any], does: str) -> None:
    rows = [work(rank, worker, 5.0, **changed) for rank in (0, 3) for worker in (0, 1)]
    assert named(rows) == ("Each of the 2 workers", does)


def test_two_slow_workers_are_not_one() -> None:
    rows = [work(3, worker, ms) for worker, ms in enumerate((1.0, 4.0, 4.2, 1.0))]
    assert named(rows)[0] == "Each of the 4 workers"


def test_ranks_with_one_slow_worker() -> None:
    rows = [*USUAL, *(work(3, worker, ms) for worker, ms in enumerate((1.0, 9.0, 1.0)))]
    tables = {QUESTION: pa.Table.from_pylist(rows, _SCHEMA)}
    assert with_one_slow_worker(tables, {0, 1, 3}) == {3: 3}
    assert with_one_slow_worker(tables, {0, 1}) == {}
    assert with_one_slow_worker({}, {3}) == {}


def test_a_large_job_is_compared_with_some_of_its_ranks() -> None:
    rows = [work(rank, worker, 1.0) for rank in range(600) for worker in (0, 1)]
    rows += [work(600, worker, 4.0) for worker in (0, 1)]
    assert named(rows, 600) == ("Source Text", "it computes for 90% of that")
    assert named(rows, None)[0] == "Each of the 402 workers"


def test_without_workers_nothing_is_said() -> None:
    assert why([]) is None
    assert why(USUAL) is None
    assert why([work(3, 0, 5.0, fetches=2)]) is None
    assert why_slow({}, 3) is None


def waits(ms: float) -> Finding:
    return Finding(
        kind="data_loader",
        attempt=0,
        severity="urgent",
        confidence="high",
        title="Rank 3 waits for its data",
        text="It waits.",
        culprits=(Place(3),),
        first_step=0,
        last_step=40,
        ongoing=True,
        cost=Cost(ms, 4 * ms, 40, 4),
        evidence=(Evidence("It waits.", ms, "ms", "data_wait"),),
        alternatives=("Storage.", "Other processes."),
        next_step="Look at the loader.",
    )


@pytest.mark.parametrize(("ms", "is_explained"), [(40.0, True), (80.0, False)])
def test_fetches_that_are_much_shorter_than_the_wait_do_not_explain_it(
    ms: float, is_explained: bool
) -> None:
    rows = [*USUAL, *(work(3, worker, 4.0) for worker in (0, 1))]
    tables = {QUESTION: pa.Table.from_pylist(rows, _SCHEMA)}
    assert fetch_ms(tables, 3) == pytest.approx(32.0)
    found = explained(waits(ms), tables)
    assert ("Source Text takes 4.0 ms" in found.cause) == is_explained
    assert ("takes its workers 32.0 ms, much less than the wait" in found.cause) != is_explained


def mixture(rank: int, slow_ms: float) -> list[dict[str, Any]]:
    return [
        work(rank, 0, 1.0, source="Text", samples=200),
        work(rank, 0, slow_ms, source="Code", samples=100),
    ]


def everywhere(*rows: dict[str, Any]) -> Why | None:
    return slow_everywhere({QUESTION: pa.Table.from_pylist(list(rows), _SCHEMA)})


def test_a_source_that_is_slow_on_all_ranks() -> None:
    found = everywhere(*mixture(0, 20.0), *mixture(1, 22.0), *mixture(2, 19.0))
    assert found is not None
    assert found.source == "Code"
    on_one = everywhere(*mixture(0, 20.0), *mixture(1, 20.0), *mixture(2, 80.0))
    short = everywhere(*mixture(0, 1.6), *mixture(1, 1.6))  # takes less than half of the time
    assert (on_one, short, everywhere(*USUAL)) == (None, None, None)
