"""Which steps new files touch, and that pieces of a pass give what one piece gives."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import duckdb
import pytest

from ingest.errors import UserError
from ingest.index import pass_plan
from ingest.index.indexer import Indexer
from ingest.index.pass_plan import Part, parts_of, tiles_of
from ingest.index.rollup_pass import touched_steps
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


def planned(connection: duckdb.DuckDBPyConnection, low: int, high: int) -> list[Part]:
    return list(parts_of(connection, 0, low, high))


def test_steps_are_taken_in_parts_that_fit_in_memory(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=6)  # 10 spans and 2 collectives a step
    Manifest(connection).add(entries(builder))

    def cut(low: int, high: int) -> list[tuple[int, int, int]]:
        parts = planned(connection, low, high)
        return [(part.step_min, part.step_max, part.ranks_at_once) for part in parts]

    assert [steps[:2] for steps in cut(-1, 7)] == [(-1, 7)]
    monkeypatch.setattr(pass_plan, "ROWS_AT_ONCE", 24)  # a file has all six steps
    assert cut(0, 5) == [(0, 3, 1), (4, 5, 1)]
    connection.execute("UPDATE files SET step_max = 0 WHERE rank_min = 0")  # files of one step
    connection.execute("UPDATE files SET step_min = 5 WHERE rank_min = 1")
    assert cut(0, 5)[0] == (0, 1, 2)
    monkeypatch.setattr(pass_plan, "COLLECTIVES_ON_DISK", 1)
    assert [steps[:2] for steps in cut(1, 3)] == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("resumed_at", [0, 1_000_000])
def test_a_job_that_resumed_is_taken_in_parts_as_small_as_one_that_began_anew(
    tmp_path: Path,
    connection: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    resumed_at: int,
) -> None:
    builder = RunBuilder(tmp_path / "run", 1)
    builder.span(0, -1, "host", -50, -10)
    for step in range(40):
        builder.span(0, resumed_at + step, "forward", 100 * step, 100 * step + 50)
    builder.publish()
    Manifest(connection).add(entries(builder))
    connection.execute(
        "INSERT INTO step_rows BY NAME SELECT 0 AS attempt, 0 AS rank, unnest(range(?, ?)) AS step",
        [resumed_at, resumed_at + 40],
    )
    monkeypatch.setattr(pass_plan, "ROWS_AT_ONCE", 10)
    parts = planned(connection, -1, resumed_at + 40)
    trained = [part for part in parts if part.step_min >= resumed_at]
    assert max(part.step_max - part.step_min for part in trained) < 10
    assert len(parts) <= 6
    ends = [part.step_max + 1 for part in parts]
    assert [-1, *ends] == [*(part.step_min for part in parts), resumed_at + 41]


def test_steps_that_only_groups_have_are_one_part(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    Manifest(connection).add(entries(two_rank_run(tmp_path / "run")))
    assert len(list(islice(parts_of(connection, 0, -1, 1 << 62), 9))) == 2


def test_bands_are_taken_together_as_far_as_they_fit_in_memory(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = RunBuilder(tmp_path / "run", 512)
    for rank in (3, 500):
        for step in range(4):
            builder.span(rank, step, "forward", 100 * step, 100 * step + 50)
    builder.publish()
    Manifest(connection).add(entries(builder))
    (part,) = planned(connection, 0, 3)
    assert part.ranks_at_once == 512
    monkeypatch.setattr(pass_plan, "ROWS_AT_ONCE", 3)  # of 8 rows of 498 ranks
    (part,) = planned(connection, 0, 3)
    tiles = [(tile.rank_min, tile.rank_max) for tile in tiles_of(connection, part)]
    assert tiles[:2] == [(0, 127), (128, 255)]
    assert tiles[-1][0] <= 500 <= tiles[-1][1]


def test_a_part_of_a_band_divides_it_evenly(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    builder = RunBuilder(tmp_path / "run", 64)
    for rank in (37, 63):
        builder.span(rank, 0, "forward", 0, 50)
    builder.publish()
    Manifest(connection).add(entries(builder))
    tiles = tiles_of(connection, Part(0, 0, 0, 8, 0))
    assert [(tile.rank_min, tile.rank_max) for tile in tiles] == [
        (32, 39),
        (40, 47),
        (48, 55),
        (56, 63),
    ]


def sums_of(folder: Path) -> list[tuple[object, ...]]:
    """Rows of collective_rollup."""
    with Indexer(folder) as indexer:
        found = indexer.database.connection.sql("SELECT * FROM collective_rollup ORDER BY ALL")
        return found.fetchall()


LIMITS = ("ROWS_AT_ONCE", "COLLECTIVES_AT_ONCE", "COLLECTIVES_ON_DISK")


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("limits", [LIMITS[:1], LIMITS[1:2], LIMITS[2:], LIMITS[:2], LIMITS])
def test_pieces_give_what_the_whole_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[str, ...]
) -> None:
    found = []
    for is_cut in (False, True):
        for limit in limits if is_cut else ():
            monkeypatch.setattr(pass_plan, limit, 5)
        builder = two_rank_run(tmp_path / str(is_cut), num_steps=6)
        builder.step(0, 6, 600, 700)
        builder.publish()
        builder.span(0, 1, "checkpoint", 150, 650, track="saver")
        builder.publish()
        found.append((cells(builder.folder), sums_of(builder.folder)))
        assert not list((builder.folder / "index").glob(".*"))
    assert found[0] == found[1]
    assert us(found[0][0][0, 6], "window", "other") == [100, 50]
    assert found[0][1]


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


def test_nothing_is_divided_on_a_disk_that_it_would_fill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = two_rank_run(tmp_path / "run", num_steps=6)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=59))
    monkeypatch.setattr(pass_plan, "COLLECTIVES_AT_ONCE", 1)
    with pytest.raises(UserError, match="No space left on device"):
        open_run(builder.folder).close()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    open_run(builder.folder).close()
    assert sums_of(builder.folder)
