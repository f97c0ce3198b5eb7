"""Which steps new files touch, and that pieces of a pass give what one piece gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from ingest.index import rollup_pass
from ingest.index.rollup_pass import RollupPass, touched_steps
from ingest.query.index_catalog import SETUP
from ingest.query.manifest import FileEntry, Manifest, read_entry
from ingest.run import open_run
from tests.ingest.index.rollup_cells import cells, us
from tests.runs_builder import T0, US, RunBuilder, two_rank_run
from trace_hooks.layout import ParallelLayout


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute(SETUP)
        yield opened


def entries(builder: RunBuilder) -> list[FileEntry]:
    """Of all its files."""
    names = sorted(path.name for path in (builder.folder / "segments").iterdir())
    return [read_entry(builder.folder, f"segments/{name}")[0] for name in names]


def test_a_span_touches_its_steps_and_a_step_the_next_one(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    builder = RunBuilder(tmp_path / "run", 2)
    builder.span(0, 4, "forward", 400, 450)
    builder.span(1, 6, "forward", 600, 650)
    builder.add("memory", 0, 99, ts_ns=0)  # no part of a rollup
    builder.publish()
    assert touched_steps(connection, entries(builder), relative=False) == {0: (4, 6)}
    builder.step(0, 7, 700, 800)
    builder.span(0, 2, "forward", 200, 250, attempt=1)
    builder.publish()
    expected = {0: (4, 8), 1: (2, 2)}
    assert touched_steps(connection, entries(builder), relative=False) == expected


@pytest.mark.parametrize(("relative", "last"), [(False, 3), (True, 0)])
def test_a_span_touches_the_steps_that_it_lasts_into(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, relative: bool, last: int
) -> None:
    builder = RunBuilder(tmp_path / "run", 1)
    builder.span(0, 0, "checkpoint", 50, 350)
    builder.publish()
    connection.executemany(
        "INSERT INTO step_rows BY NAME SELECT 0 AS attempt, 0 AS rank, ? AS step,"
        " ? AS start_ns, 100_000 AS dur_ns",
        [[step, T0 + 100 * US * step] for step in range(6)],
    )
    assert touched_steps(connection, entries(builder), relative) == {0: (0, last)}


def test_steps_are_taken_in_pieces_that_fit_in_memory(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=6)  # 10 spans and 2 collectives a step
    Manifest(connection).add(entries(builder))
    rollup = RollupPass(connection, builder.folder, tmp_path, relative=False)

    def steps(low: int, high: int) -> list[tuple[int, int]]:
        return [(first, last) for first, last, _ in rollup._parts(0, low, high)]

    assert steps(-1, 7) == [(-1, 7)]
    monkeypatch.setattr(rollup_pass, "ROWS_AT_ONCE", 24)
    assert steps(0, 5) == [(0, 1), (2, 3), (4, 5)]
    monkeypatch.setattr(rollup_pass, "COLLECTIVES_AT_ONCE", 1)
    assert steps(1, 3) == [(1, 1), (2, 2), (3, 3)]


def test_bands_are_taken_together_as_far_as_they_fit_in_memory(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = RunBuilder(tmp_path / "run", 512)
    for rank in (3, 500):
        for step in range(4):
            builder.span(rank, step, "forward", 100 * step, 100 * step + 50)
    builder.publish()
    Manifest(connection).add(entries(builder))
    rollup = RollupPass(connection, builder.folder, tmp_path, relative=False)
    assert list(rollup._parts(0, 0, 3)) == [(0, 3, rollup_pass.ROWS_AT_ONCE)]
    monkeypatch.setattr(rollup_pass, "ROWS_AT_ONCE", 4)  # 8 bands with a row a band on average
    assert list(rollup._parts(0, 0, 3)) == [(0, 3, 4)]


def test_pieces_give_what_the_whole_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for limit in (None, "ROWS_AT_ONCE", "COLLECTIVES_AT_ONCE"):
        if limit is not None:
            monkeypatch.setattr(rollup_pass, limit, 5)
        builder = two_rank_run(tmp_path / str(limit), num_steps=6)
        builder.step(0, 6, 600, 700)
        builder.publish()
        builder.span(0, 1, "checkpoint", 150, 650, track="saver")
        builder.publish()
        found.append(cells(builder.folder))
    assert found[0] == found[1] == found[2]
    assert us(found[0][0, 6], "window", "other") == [100, 50]


def test_a_step_finished_later_replaces_the_unfinished_one(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 1)
    run.rank_files()
    run.span(0, 0, "forward", 0, 40)
    run.publish()
    assert not cells(run.folder)[0, 0]["finished"]
    run.step(0, 0, 0, 100)
    run.publish()
    row = cells(run.folder)[0, 0]
    assert row["finished"]
    assert us(row, "window", "compute") == [100, 40]


def test_bands_of_ranks_and_a_rank_that_is_not_the_first(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 70, ParallelLayout.from_sizes(dp=70))
    for rank in (3, 69):
        builder.step(rank, 0, 0, 100)
        builder.span(rank, 0, "forward", 0, 10 + rank)
    builder.publish()
    by_cell = cells(builder.folder)
    assert {key: row["compute_ns"] for key, row in by_cell.items()} == {
        (3, 0): 13_000,
        (69, 0): 79_000,
    }


def test_steps_centuries_apart_are_a_problem_not_an_end(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "run", 4)
    for rank in range(4):
        builder.step(rank, 0, 0, 100)
        builder.span(rank, 0, "forward", 0, 40)
    builder.span(0, 0, "checkpoint", 50, 150, track="saver")  # to be cut at the end of the step
    builder.add("steps", 0, 1, start_ns=1 << 62, dur_ns=100)
    builder.publish()
    with open_run(builder.folder) as run:
        assert run.ask("run_summary").num_rows == 1
        assert len(run.problems) == 1
