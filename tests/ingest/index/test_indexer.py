"""The indexer: the same answers however the files come, and no file that can stop it."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ingest.errors import UserError
from ingest.index import indexer as indexer_module
from ingest.index.indexer import Busy, Indexer
from ingest.index.snapshots import DATABASE, current_snapshot
from ingest.query.index_catalog import require_own
from ingest.query.manifest import Narrowing
from ingest.run import Run, open_run
from tests.runs_builder import T0, US, RunBuilder, table, two_rank_run
from trace_hooks.schema import SCHEMA_VERSION, publish_table

ROLLUPS = ("step_rollup", "kind_rollup", "collective_rollup")


def rollups(folder):
    with open_run(folder) as run:
        return {name: run.sql(f"SELECT * FROM {name} ORDER BY ALL").to_pylist() for name in ROLLUPS}


def add_step(builder, step, rank):
    """One step of a rank in which a save begins that ends in the next one."""
    t = step * 100.0
    builder.step(rank, step, t, t + 100)
    builder.span(rank, step, "forward", t + 5, t + 60, cpu_ns=40_000)
    builder.span(rank, step, "dp_comm", t + 20 + rank, t + 40, depth=1)
    builder.span(rank, step, "checkpoint", t + 50, t + 130, track="saver")
    builder.collective(rank, step, 7, step, t + 20 + rank, t + 40)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(2))
def test_piece_by_piece_gives_what_all_at_once_gives(tmp_path, seed):
    order = [(step, rank) for step in range(3) for rank in range(2)]
    random.Random(seed).shuffle(order)
    pieces, whole = (RunBuilder(tmp_path / name, 2) for name in ("pieces", "whole"))
    for builder in (pieces, whole):
        builder.rank_files()
        builder.group(7, [0, 1], "dp")
    with Indexer(pieces.folder) as indexer:
        for step, rank in order:
            add_step(pieces, step, rank)
            pieces.publish()
            indexer.refresh()
    for step, rank in order:
        add_step(whole, step, rank)
    whole.publish()
    in_pieces = rollups(pieces.folder)
    assert in_pieces == rollups(whole.folder)
    assert len(in_pieces["step_rollup"]) == 6


def test_a_pass_without_news_publishes_nothing(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    with Indexer(builder.folder) as indexer:
        assert indexer.refresh().published
        assert not indexer.refresh().published
    with Indexer(builder.folder) as indexer:
        assert not indexer.refresh().published


def test_an_index_that_is_deleted_while_a_run_is_followed_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(indexer_module, "RECONNECT_EVERY", 2)
    builder = two_rank_run(tmp_path / "run")
    with Indexer(builder.folder) as indexer:
        indexer.refresh()
        (indexer.index_folder / DATABASE).unlink()
        assert indexer.refresh().new_files == 8
        assert indexer.database.connection.sql("SELECT count(*) FROM ranks").fetchall() == [(2,)]


def test_an_index_that_cannot_be_opened_once_is_opened_by_the_next_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(indexer_module, "RECONNECT_EVERY", 2)
    with Indexer(two_rank_run(tmp_path / "run").folder) as indexer:
        indexer.refresh()
        with monkeypatch.context() as patched:
            patched.setattr("ingest.index.index_database._opened", cannot_be_opened)
            with pytest.raises(UserError, match="not now"):
                indexer.refresh()
        assert indexer.refresh().problems == 0


def cannot_be_opened(path):
    raise UserError("not now")


def test_one_owner_at_a_time(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    with Indexer(builder.folder), pytest.raises(Busy):
        Indexer(builder.folder)
    Indexer(builder.folder).close()


def damage(path, how):
    data = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("no parquet")
    elif how == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:  # pages, with the footer whole
        path.write_bytes(data[:4] + b"\xff" * 600 + data[604:])


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("empty", "spans"),
        ("text", "clocks"),
        ("cut", "steps"),
        ("pages", "spans"),
        ("pages", "steps"),
        ("pages", "clocks"),
    ],
)
def test_a_damaged_segment_is_set_aside(tmp_path, how, name):
    builder = two_rank_run(tmp_path / "run")
    builder.add("clocks", 1, 0, ts_ns=0)
    builder.publish()
    damage(builder.folder / "segments" / f"{name}-0000-00001-00000000.parquet", how)
    with open_run(builder.folder) as run:
        assert len(run.problems) == 1
        assert f"{name}-0000-00001" in run.problems[0]
        assert run.ask("step_times", rank=0).num_rows == 3


@pytest.mark.parametrize(
    ("column", "values"),
    [("rank", pa.array(["a"])), ("dur_ns", pa.array([True])), ("kind", pa.array([0.5]))],
)
def test_a_segment_with_a_column_of_another_type_is_set_aside(tmp_path, column, values):
    builder = two_rank_run(tmp_path / "run")
    rows = table("spans", [{"attempt": 0, "rank": 0, "step": 0, "ts_ns": 1, "dur_ns": 1}])
    wrong = rows.set_column(rows.schema.get_field_index(column), column, values)
    pq.write_table(wrong, builder.folder / "segments" / "spans-0000-00000-00000009.parquet")
    with open_run(builder.folder) as run:
        [problem] = run.problems
        assert f"has {column} as {values.type}, not " in problem
        assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 30}]


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("spans", "ts_ns", 2**63 - 1),
        ("steps", "dur_ns", 2**63 - 1),
        ("collectives", "rank", 2**31 - 1),
        ("collectives", "step", -(2**63)),
        ("collectives", "num_bytes", 2**63 - 1),
        ("clocks", "offset_ns", 2**63 - 1),
    ],
)
def test_a_segment_with_a_number_that_no_job_has_is_set_aside(tmp_path, name, column, value):
    builder = two_rank_run(tmp_path / "run")
    rows = table(name, [{"attempt": 0, "rank": 0, "step": 1, "ts_ns": T0} | {column: value}])
    rows = pa.Table.from_arrays(
        [
            pc.fill_null(rows[c], 0) if pa.types.is_integer(rows[c].type) else rows[c]
            for c in rows.column_names
        ],
        schema=rows.schema,
    )
    publish_table(rows, builder.folder / "segments" / f"{name}-0000-00000-00000009.parquet")
    with open_run(builder.folder) as run:
        [problem] = run.problems
        assert f"has {column} {value}; no job has one beyond" in problem
        assert run.ask("step_times", rank=0).num_rows == 3


def test_a_newer_segment_is_set_aside_with_a_sentence(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    rows = table("spans", [{"attempt": 0, "rank": 0, "step": 9, "ts_ns": 1, "dur_ns": 1}])
    newer = rows.replace_schema_metadata(
        {b"rankscope.table": b"spans", b"rankscope.schema": b"2.0"}
    )
    pq.write_table(newer, builder.folder / "segments" / "spans-0000-00000-00000009.parquet")
    with open_run(builder.folder) as run:
        assert "upgrade rankscope" in run.problems[0]
        assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 30}]


def test_what_is_no_segment_is_left_alone(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    (builder.folder / "segments" / ".spans-0000-00000-00000007.parquet.1.tmp").write_text("half")
    (builder.folder / "segments" / "notes.txt").write_text("hello")
    with open_run(builder.folder) as run:
        assert run.problems == []


def test_a_damaged_rank_file_is_a_problem_not_an_end(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    (builder.folder / "ranks" / "0000-00001.json").write_text('{"schema"')
    with open_run(builder.folder) as run:
        assert "0000-00001.json" in run.problems[0]
        assert [info["rank"] for info in run.ranks] == [0]


def test_a_damaged_index_is_built_again(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    before = rollups(builder.folder)
    (builder.folder / "index" / DATABASE).write_bytes(b"x" * 20_000)
    assert rollups(builder.folder) == before


def test_the_manifest_opens_only_what_is_requested(tmp_path):
    builder = RunBuilder(tmp_path / "run", 2)
    for step in range(4):
        for rank in range(2):
            builder.step(rank, step, step * 100, step * 100 + 100)
            builder.span(rank, step, "forward", step * 100, step * 100 + 90)
        builder.publish()
    with open_run(builder.folder) as run:
        files = run.snapshot.files
        assert len(files("spans")) == 8
        assert len(files("spans", Narrowing(rank_min=1, rank_max=1))) == 4
        assert len(files("spans", Narrowing(step_min=2, step_max=3))) == 4
        ts = T0 + 250 * US
        assert len(files("spans", Narrowing(rank_min=0, rank_max=0, ts_min=ts, ts_max=ts))) == 1
        (empty,) = files("marks")  # of this schema, so that all columns are there
        assert empty.rsplit("/", 1)[1] == f"marks-{SCHEMA_VERSION}.parquet"


def test_following_sees_a_new_segment_within_half_a_second(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    stop = threading.Event()
    with Indexer(builder.folder) as indexer:
        indexer.refresh()
        thread = threading.Thread(target=indexer.follow, args=(stop, 0.1))
        thread.start()
        try:
            with open_run(builder.folder, refresh=False) as run:
                builder.step(0, 1, 100, 200)
                builder.publish()
                begun = time.monotonic()
                while run.ask("steps").num_rows < 2 and time.monotonic() - begun < 10:
                    time.sleep(0.02)
                assert run.ask("steps").num_rows == 2
        finally:
            stop.set()
            thread.join()


def test_an_empty_segment_is_fine(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    path = builder.folder / "segments" / "spans-0000-00000-00000009.parquet"
    publish_table(table("spans", []), path)
    with open_run(builder.folder) as run:
        assert run.problems == []
        assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 30}]


def test_the_database_is_reopened_at_times_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(indexer_module, "RECONNECT_EVERY", 2)
    builder = RunBuilder(tmp_path / "run", 1)
    with Indexer(builder.folder) as indexer:
        connections = {id(indexer.database.connection): indexer.database.connection}
        for step in range(6):
            builder.span(0, step, "forward", step * 100, step * 100 + 50)
            builder.publish()
            assert indexer.refresh().new_files > 0
            connections[id(indexer.database.connection)] = indexer.database.connection
            assert indexer.database.manifest.connection is indexer.database.connection
        assert len(connections) == 4
    with open_run(builder.folder, refresh=False) as run:
        assert run.sql("SELECT step FROM spans ORDER BY step").column("step").to_pylist() == list(
            range(6)
        )


def _indexed(folder: Path) -> tuple[RunBuilder, Indexer]:
    """A run in `folder`, and its indexer, which has ended."""
    builder = two_rank_run(folder / "job")
    with Indexer(builder.folder) as indexer:
        indexer.refresh()
    return builder, indexer


def _plant(sql: str, database: Path) -> None:
    """Writes a stranger's objects into a database; `{secret}` is a file of this machine."""
    secret = database.parent / "secret.txt"
    secret.write_text("a secret of the machine")
    with duckdb.connect(str(database)) as connection:
        connection.execute(sql.format(secret=secret))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "planted",
    [
        "DROP TABLE problems; CREATE VIEW problems AS"
        " SELECT content AS source, content AS text FROM read_text('{secret}')",
        "CREATE VIEW more AS FROM read_text('{secret}')",
        "DROP TABLE problems; CREATE TABLE problems"
        " (source VARCHAR DEFAULT current_setting('temp_directory'), text VARCHAR)",
        "CREATE OR REPLACE MACRO bus_bytes(op, num_bytes, members) AS 1",
        "CREATE SCHEMA other",
        "CREATE TRIGGER spying AFTER INSERT ON generation FOR EACH STATEMENT"
        " INSERT INTO problems SELECT '', content FROM read_text('{secret}')",
        "CREATE TRIGGER stopping AFTER INSERT ON generation FOR EACH STATEMENT"
        " INSERT INTO problems SELECT '', error('a trigger ran')",
    ],
)
def test_an_index_of_a_stranger_is_made_again(tmp_path, planted):
    builder, indexer = _indexed(tmp_path)
    path = indexer.index_folder / DATABASE
    _plant(planted, path)
    builder.step(0, 3, 400, 500)
    builder.publish()
    with open_run(builder.folder) as run:
        assert not [one for one in run.problems if "secret" in one]
        assert run.ask("steps").num_rows == 4
    with duckdb.connect(str(path), read_only=True) as connection:
        require_own(connection, path.stem)


@pytest.mark.parametrize(
    "planted",
    [
        "DROP TABLE files; CREATE VIEW files AS SELECT error('a view ran') AS is_partial",
        "DROP TABLE problems; CREATE VIEW problems AS FROM read_text('{secret}')",
        "DROP TABLE files",
    ],
)
def test_a_snapshot_of_a_stranger_is_not_read_and_made_again(tmp_path, planted):
    builder, indexer = _indexed(tmp_path)
    _plant(planted, current_snapshot(indexer.index_folder))
    with (
        Run(builder.folder) as run,
        pytest.raises(UserError, match=r"job cannot be opened: .* not its own; it was discarded"),
    ):
        run.index_rows("SELECT 1 AS one")
    with open_run(builder.folder) as run:
        assert run.ask("steps").num_rows == 3
