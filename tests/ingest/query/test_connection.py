"""One database shows snapshot after snapshot, also to those who are in the middle of a query."""

import threading

import pytest

from ingest import run as run_module
from ingest.errors import UserError
from ingest.free_sql.sql_process import SqlProcess
from ingest.index.indexer import Indexer
from ingest.query import connection
from ingest.query.query_timeouts import TimeLimits
from ingest.query.snapshot import Snapshot
from ingest.run import Run
from tests.runs_builder import RunBuilder

BOTH = "SELECT (SELECT max(step) FROM step_rollup) AS a, (SELECT max(step) FROM newest_steps) AS b"
LONG = "SELECT a.step FROM range(3000) a(x), range(1000) b(y), step_rollup a"


def grow(builder, indexer, step):
    builder.step(0, step, step * 1000, step * 1000 + 10)
    builder.publish()
    indexer.refresh()


def attached(snapshot):
    rows = snapshot.index_rows("SELECT database_name AS name FROM duckdb_databases()", {}, 9.0)
    return [row["name"] for row in rows if row["name"].startswith("snapshot_")]


def test_a_snapshot_takes_over_the_database_of_the_one_before(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "MOST_SHOWN", 6)
    builder = RunBuilder(tmp_path / "run", 1)
    with Indexer(builder.folder) as indexer:
        grow(builder, indexer, 0)
        run = Run(builder.folder)
        assert run.ask("step_times").num_rows == 1
        old = run.snapshot
        for step in range(1, 6):
            grow(builder, indexer, step)
            steps = run.index_rows("SELECT DISTINCT step FROM step_rollup ORDER BY step")
            assert [row["step"] for row in steps] == list(range(step + 1))
            assert run.index_rows("SELECT count(*) AS n FROM newest_steps")[0]["n"] == step + 1
            assert run.sql("SELECT max(step) AS last FROM steps").to_pylist() == [{"last": step}]
        assert run.snapshot is not old
        assert len(attached(run.snapshot)) == 1
        assert (
            old.execute("SELECT count(*) AS n FROM newest_steps", {}, 9.0).to_pylist()[0]["n"] == 6
        )
        run.close()


def test_a_reader_keeps_the_snapshot_it_began_with(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    with Indexer(builder.folder) as indexer:
        grow(builder, indexer, 0)
        first = Snapshot(Run(builder.folder).snapshot.path, builder.folder)
        with first.reading(LONG, {}, 60.0) as batches:
            num_rows = batches.read_next_batch().num_rows
            grow(builder, indexer, 1)
            path = Run(builder.folder).snapshot.path
            second = Snapshot(path, builder.folder, before=first)
            assert len(attached(second)) == 2
            assert second.index_rows("SELECT max(step) AS last FROM step_rollup", {}, 9.0) == [
                {"last": 1}
            ]
            num_rows += sum(batch.num_rows for batch in batches)
        assert num_rows == 3_000_000
        grow(builder, indexer, 2)
        third = Snapshot(Run(builder.folder).snapshot.path, builder.folder, before=second)
        assert len(attached(third)) == 1
        third.close()


def test_raw_views_of_an_older_snapshot_do_not_replace_those_of_a_newer_one(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    with Indexer(builder.folder) as indexer:
        grow(builder, indexer, 0)
        old = Snapshot(Run(builder.folder).snapshot.path, builder.folder)
        grow(builder, indexer, 1)
        new = Snapshot(Run(builder.folder).snapshot.path, builder.folder, before=old)
        new.show_raw_tables()
        old.show_raw_tables()
        counted = new.execute("SELECT count(*) AS n FROM steps", {}, 9.0).to_pylist()
        assert counted == [{"n": 2}]
        new.close()


def test_a_snapshot_that_is_removed_before_it_is_opened_is_no_error(tmp_path, monkeypatch):
    builder = RunBuilder(tmp_path / "run", 1)
    with Indexer(builder.folder) as indexer:
        grow(builder, indexer, 0)
        run = Run(builder.folder)
        seen = []

        def opened_late(path, *rest):
            if not seen:
                for step in range(1, 4):
                    grow(builder, indexer, step)
                assert not path.exists()
            seen.append(path)
            return Snapshot(path, *rest)

        monkeypatch.setattr(run_module, "Snapshot", opened_late)
        assert run.index_rows("SELECT max(step) AS last FROM step_rollup") == [{"last": 3}]
        assert len(seen) == 2
        run.close()


def test_sql_on_a_snapshot_that_is_removed_before_it_is_opened_is_no_error(tmp_path, monkeypatch):
    builder = RunBuilder(tmp_path / "run", 1)
    with Indexer(builder.folder) as indexer:
        grow(builder, indexer, 0)
        run = Run(builder.folder)
        begin, seen = SqlProcess.reading, []

        def begun_late(process, text, path, *rest):
            if not seen:
                for step in range(1, 4):
                    grow(builder, indexer, step)
                assert not path.exists()
            seen.append(path)
            return begin(process, text, path, *rest)

        monkeypatch.setattr(SqlProcess, "reading", begun_late)
        assert run.sql("SELECT max(step) AS last FROM step_rollup").to_pylist() == [{"last": 3}]
        assert len(seen) == 2
        run.close()


@pytest.mark.long
def test_switching_disturbs_nobody(tmp_path):
    """Queries run all the while, each sees one whole snapshot."""
    builder = RunBuilder(tmp_path / "run", 1)
    wrong, stop = [], threading.Event()
    with Indexer(builder.folder) as indexer:
        grow(builder, indexer, 0)
        run = Run(builder.folder)

        def ask():
            while not stop.is_set():
                try:
                    row = run.snapshot.execute(BOTH, {}, 9.0).to_pylist()[0]
                    if row["a"] != row["b"]:
                        wrong.append(row)
                except UserError as error:
                    wrong.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for step in range(1, 12):
            grow(builder, indexer, step)
            assert run.snapshot.path.exists()
        stop.set()
        for thread in threads:
            thread.join()
        run.close()
    assert not wrong


def test_time_limits():
    limits, called = TimeLimits(), threading.Event()
    with limits.limit(60.0, lambda: 1 / 0), limits.limit(None, lambda: 1 / 0):
        with limits.limit(0.02, called.set):
            assert called.wait(20.0)
        called.clear()
        with limits.limit(0.05, called.set):
            pass
        assert not called.wait(0.2)
        with limits.limit(0.01, called.set):  # the thread waits for the one of 60 s
            assert called.wait(20.0)
