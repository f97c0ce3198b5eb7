"""The processes that run SQL: what they may do, how they end, and what they leave behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.free_sql.sql_process import SqlProcess
from ingest.run import Run, open_run
from ingest.stopping import Stop
from tests.ingest.free_sql.sql_processes import parent_of, processes, until_gone
from tests.runs_builder import two_rank_run

ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    builder = two_rank_run(tmp_path / "job")
    with open_run(builder.folder) as opened:
        yield opened


def num_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_statement_has_a_process_of_its_own_that_ends_with_it(run: Run) -> None:
    run.sql("SELECT 1")
    held = [pid for pid in processes(run) if parent_of(pid) == os.getpid()]
    assert len(held) == 1
    statements = set()
    for _ in range(5):
        run.sql("SELECT count(*) FROM spans")
        statements |= set(processes(run)) - set(held)
    assert [pid for pid in processes(run) if parent_of(pid) == os.getpid()] == held
    until_gone([pid for pid in statements if parent_of(pid) == held[0]][:-2])
    run.close()
    until_gone(held + list(statements))


def num_rows(run: Run, text: str, session: str | None) -> int:
    """Number of rows of an answer to a session."""
    with run.sql_reading(text, session=session) as rows:
        return rows.read_all().num_rows


def test_cheap_statements_of_one_session_share_a_process_and_others_never(run: Run) -> None:
    run.get_sql_ready()
    time.sleep(0.5)  # the process that waits is forked after that

    def grown_by(*sessions: str | None) -> int:
        """Processes that were forked for these statements."""
        seen: set[int] = set(processes(run))
        before = len(seen)
        for session in sessions:
            assert num_rows(run, "FROM steps", session) == 6
            time.sleep(0.2)
            seen |= set(processes(run))
        return len(seen) - before

    assert grown_by("a") == 1  # the next one that waits
    assert grown_by("a", "a", "a") == 0
    assert grown_by("b") == 1
    assert grown_by("a", "b", "a") == 0
    assert grown_by(None, None) == 2


@pytest.mark.parametrize("text", ["SELECT nothing", "FROM read_text('x')", "SELECT error('x')"])
def test_after_a_statement_that_failed_the_session_gets_another_process(
    run: Run, text: str
) -> None:
    assert num_rows(run, "FROM steps", "a") == 6
    with pytest.raises(UserError):
        num_rows(run, text, "a")
    assert num_rows(run, "FROM steps", "a") == 6


def test_a_process_that_died_while_it_waited_costs_nothing(run: Run) -> None:
    for _ in range(3):
        assert num_rows(run, "FROM steps", "a") == 6
        for pid in processes(run):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def test_rows_that_nobody_reads_to_the_end_are_no_part_of_the_next_answer(run: Run) -> None:
    for _ in range(3):
        with run.sql_reading("SELECT range AS n FROM range(1000000000)", session="a") as rows:
            rows.read_next_batch()
        assert num_rows(run, "FROM steps", "a") == 6


def test_killed_processes_cost_one_statement_a_sentence_at_most(run: Run) -> None:
    for _ in range(5):
        with run.sql_reading("SELECT range AS n FROM range(1000000000000)") as rows:
            rows.read_next_batch()
            for pid in processes(run):
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(UserError, match="its process ended before its answer did"):
                rows.read_all()
        assert run.sql("SELECT count(*) AS n FROM steps").to_pylist() == [{"n": 6}]


@pytest.mark.long
def test_statements_leave_no_descriptor_and_no_process(run: Run) -> None:
    run.sql("SELECT 1")
    before, held = num_descriptors(), len(processes(run))
    for _ in range(30):
        with pytest.raises(UserError):
            run.sql("SELECT nothing")
        with run.sql_reading("SELECT range FROM range(1000000000)") as rows:
            rows.read_next_batch()
    time.sleep(0.5)
    assert num_descriptors() <= before + 1
    assert len(processes(run)) <= held + 1


def test_the_process_knows_no_secret_of_the_server(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKSCOPE_TOKEN", "a secret of somebody")
    run.sql("SELECT 1")
    texts = []
    for pid in processes(run):
        with suppress(OSError):  # it has just ended
            texts.append((Path("/proc") / str(pid) / "environ").read_text())
    assert [text for text in texts if "PATH=" in text]
    assert not [text for text in texts if "secret of somebody" in text]


def test_statements_see_the_newest_snapshot(tmp_path: Path) -> None:
    builder = two_rank_run(tmp_path / "job", num_steps=1)
    with open_run(builder.folder) as run:
        for step in range(1, 6):
            assert run.sql("SELECT count(*) AS n FROM steps").to_pylist() == [{"n": step + 1}]
            builder.step(0, step, 100 * step, 200)
            builder.publish()
            assert run.refresh()


def test_many_at_once_get_their_own_answers(run: Run) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(run.sql, f"SELECT {number} AS n") for number in range(40)]
    assert [answer.result().to_pylist() for answer in answers] == [[{"n": n}] for n in range(40)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "text",
    [
        "SELECT list_sum(range(2000000000))",
        "SELECT repeat('a', 4000000000)",
        "SELECT list_sort(range(200000000))",
        "SELECT damerau_levenshtein(repeat('ab', 30000), repeat('ba', 30000))",
        ENDLESS,
    ],
)
def test_a_greedy_statement_ends_at_its_limits(run: Run, text: str) -> None:
    begun_s = time.monotonic()
    with pytest.raises(UserError, match=r"more memory than it may use|took longer than 1\.0 s"):
        run.sql(text, limit_s=1.0)
    assert time.monotonic() - begun_s < 20
    assert run.sql("SELECT 1 AS n").to_pylist() == [{"n": 1}]


def test_the_stop_of_a_statement_ends_no_later_one_of_its_session(run: Run) -> None:
    stop = Stop()
    with run.sql_reading("FROM steps", stop=stop, session="a") as rows:
        assert rows.read_all().num_rows == 6
    before = set(processes(run))
    with run.sql_reading("SELECT range FROM range(20000000)", session="a") as rows:
        rows.read_next_batch()
        assert set(processes(run)) <= before  # in the process of the first one
        stop()
        assert sum(batch.num_rows for batch in rows) > 19_000_000


def test_sessions_that_have_gone_leave_nothing(run: Run) -> None:
    path = run.snapshot.path
    process = SqlProcess(run.folder, path.parent)
    for limit_s in range(100, 120):
        for _ in range(2):
            with process.reading("FROM steps", path, float(limit_s), session="a") as rows:
                assert rows.read_all().num_rows == 6
        with pytest.raises(UserError), process.reading("FROM x", path, limit_s, session="a"):
            pass
    assert len(process._resting) <= 1
    process.close()
