"""Rows about ranks: coordinates of any source, arrivals by this machine's clock."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.index.rank_rows import store_arrivals, store_ranks
from ingest.query.index_catalog import SETUP
from ingest.query.manifest import read_entry
from ingest.readers.tables.rows import rank_info
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import publish_table


@pytest.fixture
def connection():  # type: ignore[no-untyped-def]
    with duckdb.connect() as opened:
        opened.execute(SETUP)
        yield opened


def test_coordinates_are_recorded_or_those_of_the_layout(connection) -> None:  # type: ignore[no-untyped-def]
    layout = ParallelLayout.from_sizes(pp=2, dp=2)
    by_layout = {**rank_info(3, layout=layout), "coords": None}
    store_ranks(connection, [rank_info(0, layout=layout), by_layout, rank_info(9)], ["bad"])
    rows = connection.execute("SELECT rank, pp, dp FROM ranks ORDER BY rank").fetchall()
    assert rows == [(0, 0, 0), (3, 1, 1), (9, None, None)]
    store_ranks(connection, [], [])  # what was stored before is replaced
    assert connection.execute("SELECT count(*) FROM ranks").fetchall() == [(0,)]
    assert connection.execute("SELECT * FROM problems").fetchall() == []


@pytest.mark.parametrize(
    ("hooks", "interval_ns"),
    [({"publish_every_s": 10.0}, 10**10), ({}, 0), ({"publish_every_s": "1"}, 0)]
    + [({"publish_every_s": seconds}, 0) for seconds in (-1, 1e300, float("nan"), True)],
)
def test_how_late_rows_of_a_rank_may_come(  # type: ignore[no-untyped-def]
    connection, hooks: dict[str, object], interval_ns: int
) -> None:
    store_ranks(connection, [{**rank_info(0), "hooks": hooks}], [])
    rows = connection.execute("SELECT publish_every_ns FROM ranks").fetchall()
    assert rows == [(interval_ns,)]


def test_files_of_before_arrived_when_they_were_written(connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    builder = RunBuilder(tmp_path / "run", 1)
    builder.span(0, 0, "forward", 0, 1)
    builder.publish()
    name = "segments/spans-0000-00000-00000000.parquet"
    os.utime(builder.folder / name, ns=(5_000, 5_000))
    entry, _ = read_entry(builder.folder, name)
    arrivals = "SELECT attempt, rank, arrived_ns FROM arrivals"
    store_arrivals(connection, [entry], 9_000, builder.folder.joinpath, is_first=True)
    assert connection.execute(arrivals).fetchall() == [(0, 0, 5_000)]
    store_arrivals(connection, [entry], 9_000, builder.folder.joinpath)
    store_arrivals(connection, [entry], 7_000, builder.folder.joinpath)  # the clock was set back
    assert connection.execute(arrivals).fetchall() == [(0, 0, 9_000)]


def test_samples_of_the_machine_are_no_sign_that_a_rank_lives(connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    builder = RunBuilder(tmp_path / "run", 1)
    builder.add("host_metrics", 0, 0, ts_ns=T0)
    builder.publish()
    entry, _ = read_entry(builder.folder, "segments/host_metrics-0000-00000-00000000.parquet")
    store_arrivals(connection, [entry], 9_000, builder.folder.joinpath)
    assert connection.execute("SELECT * FROM arrivals").fetchall() == []


def test_files_of_several_ranks_arrived_for_those_with_rows_in_them(  # type: ignore[no-untyped-def]
    connection, tmp_path: Path
) -> None:
    builder = RunBuilder(tmp_path / "run", 4)
    for rank in (0, 2):
        builder.span(rank, 0, "forward", 0, 1)
    for rank in (2, 3):
        builder.step(rank, 0, 0, 1)
    builder.publish()
    entries = []
    for table, written_ns in (("spans", 5_000), ("steps", 7_000)):
        by_rank = sorted((builder.folder / "segments").glob(f"{table}-*.parquet"))
        rows = pa.concat_tables(map(pq.read_table, by_rank)).unify_dictionaries()
        of_host = builder.folder / "segments" / f"{table}-0000-00000-00000009.parquet"
        publish_table(rows, of_host)
        os.utime(of_host, ns=(written_ns, written_ns))
        entries.append(read_entry(builder.folder, f"segments/{of_host.name}")[0])
    store_arrivals(connection, entries, 9_000, builder.folder.joinpath, is_first=True)
    rows = connection.execute("SELECT rank, arrived_ns FROM arrivals ORDER BY rank").fetchall()
    assert rows == [(0, 5_000), (2, 7_000), (3, 7_000)]
