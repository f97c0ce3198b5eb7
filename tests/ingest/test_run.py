"""Opening runs, their state, and a sandbox that nothing gets out of."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ingest.errors import UserError
from ingest.index.indexer import Indexer
from ingest.index.snapshots import index_folder
from ingest.run import RunStore, open_run
from ingest.stopping import Interrupted, Stop
from tests.runs_builder import RunBuilder, two_rank_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "two"
    two_rank_run(folder)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    with open_run(folder) as opened:
        yield opened


def test_a_run_knows_what_it_is(run):
    assert run.info["run"] == "two"
    assert [info["rank"] for info in run.ranks] == [0, 1]
    assert run.attempts == [0]
    assert str(run.layout(0)) == "tp 2"
    assert run.layout(5) is None
    assert run.problems == []


def test_a_run_that_many_open_at_once_for_the_first_time_is_opened(tmp_path):
    with Indexer(two_rank_run(tmp_path / "new").folder) as owner:
        owner.refresh()
    threads = 8
    together = Barrier(threads)

    def opened(_number):
        together.wait()
        with open_run(tmp_path / "new") as one:
            return one.sql("SELECT count(*) AS n FROM heartbeats").to_pylist()

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(opened, range(threads))) == [[{"n": 0}]] * threads


def test_sql_sees_raw_tables_and_rollups(run):
    assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 30}]
    assert run.sql("SELECT count(*) AS n FROM data_batches").to_pylist() == [{"n": 0}]
    rows = run.execute("SELECT sum(num_rows) AS n FROM files WHERE table_name = $t", {"t": "spans"})
    assert rows.to_pylist() == [{"n": 30}]


ESCAPES = (
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_parquet('{segments}/../run.json')",
    "SELECT * FROM read_text('{segments}/../run.json')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{segments}/x.parquet''')",
    "COPY (SELECT 1) TO '{segments}/x.parquet' (USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{segments}/x.parquet' (USE_TMP_FILE false)",
    "EXPORT DATABASE '{segments}'",
    "ATTACH '{segments}/x.duckdb'",
    "DETACH snapshot",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA enable_external_access",
    "CALL pragma_version()",
    "CREATE TABLE x AS SELECT 1",
    "CREATE OR REPLACE VIEW spans AS SELECT 1",
    "DROP VIEW spans",
    "INSERT INTO snapshot.files SELECT * FROM snapshot.files",
    "WITH x AS (DELETE FROM snapshot.files RETURNING *) SELECT * FROM x",
    "DELETE FROM snapshot.files",
    "SELECT 1; SELECT 2",
    "PREPARE p AS SELECT 1",
    "SELECT * FROM run",
    "",
)


@pytest.mark.parametrize("text", ESCAPES)
def test_nothing_gets_out_of_the_sandbox(run, folder, text):
    before = sorted(path.name for path in (folder / "segments").iterdir())
    with pytest.raises(UserError) as caught:
        run.sql(text.format(segments=folder / "segments"))
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in (folder / "segments").iterdir()) == before
    assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 30}]


def test_a_query_that_takes_too_long_is_stopped(run):
    begun = time.monotonic()
    with pytest.raises(Interrupted, match="took longer than"):
        run.sql("SELECT count(*) FROM range(10000000) a, range(10000000) b", limit_s=0.2)
    assert time.monotonic() - begun < 5


def test_rows_are_read_in_batches_while_they_are_computed(run):
    endless = "SELECT range AS n FROM range(1000000000000)"
    with run.sql_reading(endless) as reader:
        assert reader.read_next_batch().column("n")[1].as_py() == 1
    sql, values = run.prepared("steps", step_min=1)
    with run.reading(sql, values) as reader:
        assert reader.read_all().num_rows == run.ask("steps", step_min=1).num_rows


def test_a_batch_is_not_waited_for_longer_than_the_limit(run):
    with (
        pytest.raises(Interrupted, match="took longer than"),
        run.sql_reading("SELECT range AS n FROM range(1000000000000)", limit_s=0.2) as reader,
    ):
        for _ in reader:
            pass


def test_a_query_that_has_ended_can_be_stopped_late(run):
    stop = Stop()
    run.sql("SELECT 1", stop=stop)
    stop()


def test_a_query_that_needs_too_much_memory_is_refused(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    with open_run(builder.folder) as run:
        with pytest.raises(UserError, match="needs more memory than it may use"):
            run.sql("SELECT array_agg(repeat('x', 1000000) || i) FROM range(100000) t(i)")
        assert run.sql("SELECT count(*) AS n FROM steps").to_pylist() == [{"n": 2}]


def test_an_sql_error_has_its_place(run):
    with pytest.raises(UserError, match=r"near \"x\" \(line 2, character 8\)"):
        run.sql("SELECT *\n  FORM x")
    with pytest.raises(UserError, match="numbr"):
        run.sql("SELECT numbr FROM spans")


def test_new_segments_are_seen_by_a_run_that_is_open(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    with open_run(builder.folder) as run:
        assert run.ask("steps").num_rows == 1
        builder.step(0, 1, 100, 200)
        builder.publish()
        assert run.refresh()
        assert run.ask("steps").num_rows == 2


def test_while_another_owns_the_index_its_last_snapshot_is_used(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    with Indexer(builder.folder) as owner:
        owner.refresh()
        builder.step(0, 1, 100, 200)
        builder.publish()
        with open_run(builder.folder) as run:
            assert not run.refresh()
            assert run.ask("steps").num_rows == 1
            owner.refresh()
            assert run.ask("steps").num_rows == 2


def test_an_index_that_cannot_be_in_the_run_folder_goes_to_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    builder = two_rank_run(tmp_path / "run")
    (builder.folder / "index").write_text("in the way of a folder")
    with open_run(builder.folder) as run:
        assert run.ask("steps").num_rows == 3
    assert index_folder(builder.folder).is_relative_to(tmp_path / "cache")
    assert not (builder.folder / "compacted").exists()


def test_the_newest_attempt_of_a_step_counts(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=3)
    for rank in range(2):
        builder.add("steps", rank, 2, attempt=1, start_ns=10**18, dur_ns=5_000_000)
    builder.publish()
    with open_run(builder.folder) as run:
        steps = run.ask("steps").to_pylist()
        assert [(row["step"], row["attempt"]) for row in steps] == [(0, 0), (1, 0), (2, 1)]
        first_attempt = run.ask("steps", attempt=0).to_pylist()
        assert [row["attempt"] for row in first_attempt] == [0, 0, 0]
        assert run.attempts == [0, 1]


def test_the_state_follows_from_the_last_arrival(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    with open_run(builder.folder) as run:
        now_ns = time.time_ns()
        assert set(run.rank_states(now_ns).values()) == {"running"}
        assert set(run.rank_states(now_ns + 30 * 10**9).values()) == {"silent"}
        assert set(run.rank_states(now_ns + 90 * 10**9).values()) == {"lost"}
        assert run.state == "running"
        builder.rank_files(end={"ts_ns": now_ns, "status": "finished", "error": None})
        run.refresh()
        assert run.state == "finished"


def test_a_rank_whose_rows_wait_for_a_collector_is_not_silent(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    builder.rank_files(hooks={"publish_every_s": 10.0})
    with open_run(builder.folder) as run:
        now_ns = time.time_ns()
        assert set(run.rank_states(now_ns + 18 * 10**9).values()) == {"running"}
        assert set(run.rank_states(now_ns + 30 * 10**9).values()) == {"silent"}


def test_imported_runs_are_finished(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1, source="kineto")
    builder.publish()
    with open_run(builder.folder) as run:
        assert run.state == "finished"
        assert run.ask("run_summary").num_rows == 0


def _broken(tmp_path, text):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged"),
        ("[1, 2]", "damaged"),
        ("{}", "field `schema`"),
        (json.dumps({"schema": "2.0", "run": ["other than now"]}), "upgrade rankscope"),
        (
            json.dumps(
                {"schema": "x", "run": "x", "created_ns": 0, "clock": "absolute", "source": "hooks"}
            ),
            "not a version",
        ),
    ],
)
def test_a_bad_run_file_is_one_sentence(tmp_path, text, message):
    with pytest.raises(UserError, match=message) as caught:
        open_run(_broken(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UserError, match="no run"):
        open_run(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds no run"):
        RunStore(tmp_path).open()


def test_a_store_of_several_runs(tmp_path):
    for name in ("a", "b"):
        two_rank_run(tmp_path / name, num_steps=1)
    store = RunStore(tmp_path)
    assert {folder.name for folder in store.folders()} == {"a", "b"}
    with store.open("a") as run:
        assert run.info["run"] == "a"
    with pytest.raises(UserError, match="holds 2 runs; name one of them: "):
        store.open()
    with pytest.raises(UserError, match="has no run 'c'; it has"):
        store.open("c")
    assert RunStore(tmp_path / "a").folders() == [tmp_path / "a"]


def test_names_with_quotes_and_spaces(tmp_path):
    folder = tmp_path / "it's a 'run'; --"
    two_rank_run(folder, num_steps=1)
    with open_run(folder) as run:
        assert run.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 10}]
        assert run.ask("rank_timeline", rank=0).num_rows == 5


def test_an_unchanged_run_is_opened_without_indexing_it_again(tmp_path):
    builder = two_rank_run(tmp_path / "run")
    past = time.time() - 60
    for path in (*builder.folder.iterdir(), builder.folder):
        os.utime(path, (past, past))
    open_run(builder.folder).close()
    with Indexer(builder.folder):  # taken: a pass would not be possible now
        with open_run(builder.folder) as run:
            assert run.refresh()
            assert run.ask("steps").num_rows == 3
        builder.step(0, 7, 700, 800)
        builder.publish()
        with open_run(builder.folder) as run:
            assert not run.refresh()
    with open_run(builder.folder) as run:
        assert run.ask("steps").num_rows == 4
