"""What the page Data shows, on a run built by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.views.data_loading import data_loading_of
from ingest.run import open_run
from tests.data_runs import data_run, redundant_run
from tests.runs_builder import RunBuilder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_run(tmp_path_factory.mktemp("data") / "run")


def test_of_a_large_job_those_that_wait_longest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.views.data_loading.MOST_ROWS", 1)
    monkeypatch.setattr("app.views.data_loading.MOST_WAITS", 1)
    with open_run(folder) as run:
        found = data_loading_of(run, None)
    assert ([row["rank"] for row in found.waits], found.num_ranks) == ([1], 2)


def test_of_ranks_that_do_not_wait_nothing_is_said(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "job", 2)
    for rank in (0, 1):
        run.step(rank, 0, 0, 100)
    run.span(0, 0, "data_wait", 0, 10)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        found = data_loading_of(opened, None)
    assert ([row["rank"] for row in found.waits], found.num_ranks) == ([0], 1)


def test_who_waits_and_why(folder: Path) -> None:
    with open_run(folder) as run:
        found = data_loading_of(run, None)
    assert [row["rank"] for row in found.waits] == [1, 0]
    assert found.waits[0]["data_wait_ms"] == pytest.approx(4.0)
    assert found.why == (
        "Worker 1 takes 40.0 ms for a sample, 20.0 times as long as the rank's other workers: it "
        "waits for 90% of that (storage, network, a lock or a core); a sample reads 1.0 MB."
    )
    assert found.num_ranks == 2
    first = found.workers[0]
    assert (first["rank"], first["worker"], first["source"], first["slower"]) == (1, 1, "web", 20)
    assert (found.num_workers, len(found.workers)) == (4, 4)
    assert [(row["source"], row["ratio"], row["planned"]) for row in found.sources] == [
        ("code", 0.25, 0.5),
        ("web", 0.75, 0.5),
    ]
    assert [(row["rank"], row["worker"], row["is_shared"]) for row in found.memory] == [
        (1, 1, True),
        (1, 0, False),
    ]


def test_standby_loaders(folder: Path) -> None:
    with open_run(folder) as run:
        found = data_loading_of(run, None)
    assert found.num_standby == 2
    behind = [(row["rank"], row["begin_samples"], row["newest_samples"]) for row in found.standby]
    assert behind == [(1, 54, 354), (0, 4, 4)]


def test_sequences_that_are_long_on_one_rank(folder: Path) -> None:
    with open_run(folder) as run:
        found = data_loading_of(run, None).dealing
    assert found is not None
    assert (found.num_steps, found.step, found.num_rows) == (8, 7, 2)
    long, short = (2 * (1 + 0.01 * (length + 7 + 100)) for length in (1_000, 100))
    assert [(row["rank"], round(row["drawn_ms"], 1)) for row in found.rows] == [
        (0, round(long, 1)),
        (1, round(short, 1)),
    ]
    assert all(row["measured_ms"] == pytest.approx(row["drawn_ms"], 1e-3) for row in found.rows)
    even = (long + short) / 2
    assert [row["dealt_ms"] for row in found.rows] == pytest.approx([even, even], rel=0.01)
    assert found.saves["at_step"] == pytest.approx(1 - even / long, abs=0.01)
    assert found.saves["in_pipeline"] is None
    assert "would take 37 % less time" in found.sentence


def test_batches_that_ranks_of_a_group_read_twice(folder: Path, tmp_path: Path) -> None:
    with open_run(folder) as run:
        assert data_loading_of(run, None).redundant == ()
    with open_run(redundant_run(tmp_path / "run")) as run:
        assert data_loading_of(run, None).redundant == (
            "2 ranks of each tensor-parallel group read the same batches: 2.0 times the bytes "
            "(8 MB instead of 4 MB); let one read and broadcast.",
        )


def test_of_some_steps(folder: Path) -> None:
    with open_run(folder) as run:
        found = data_loading_of(run, 0, (0, 1))
    assert {row["fetches"] for row in found.workers} == {2}
    assert found.why is None  # too few fetches to say
    assert found.dealing is None  # too few steps to model


def test_of_a_run_without_loaders(tmp_path: Path) -> None:
    bare = RunBuilder(tmp_path / "run", 2)
    bare.rank_files()
    bare.publish()
    with open_run(bare.folder) as run:
        found = data_loading_of(run, None)
    assert (found.waits, found.workers, found.sources, found.memory) == ((), (), (), ())
    assert found.dealing is None
