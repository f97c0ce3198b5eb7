"""SQL over a table with a file that cannot be read: the sentence, never an answer without rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.free_sql.sql_process import SqlProcess
from ingest.run import open_run
from tests.runs_builder import two_rank_run

OVER_SPANS = (
    "SELECT count(*) FROM spans",
    "SELECT 1 FROM spans",
    "SELECT kind, count(*) FROM spans GROUP BY kind",
    "SELECT * FROM spans WHERE rank = 5",
    "SELECT count(*) FROM spans WHERE rank IS NOT NULL",
    "SELECT sum(dur_ns) FROM spans WHERE kind = 'forward' AND step IN (1, 2)",
    "SELECT * FROM steps WHERE rank NOT IN (SELECT rank FROM spans)",
    "SELECT count(*) FROM steps LEFT JOIN spans USING (rank, step)",
    "SELECT EXISTS (FROM spans)",
    "SUMMARIZE spans",
)


class Job:
    """A run and the process for its SQL, which has not been started yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = two_rank_run(folder).folder
        with open_run(self.folder) as run:
            self._snapshot = run.snapshot.path
        self._process = SqlProcess(self.folder, self._snapshot.parent)
        self.close = self._process.close

    def num_rows(self, text: str) -> int:
        with self._process.reading(text, self._snapshot, 60.0) as rows:
            return rows.read_all().num_rows

    def spans_files(self) -> list[Path]:
        return sorted(self.folder.glob("*/spans-*.parquet"))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path / "job")
    yield job
    job.close()


@pytest.mark.parametrize("damage", ["truncated", "removed"])
def test_every_question_about_a_damaged_table_gets_the_sentence(job: Job, damage: str) -> None:
    for path in job.spans_files():
        path.unlink() if damage == "removed" else os.truncate(path, 40)
    for text in OVER_SPANS:
        with pytest.raises(UserError, match=r"spans cannot be read: ") as caught:
            job.num_rows(text)
        assert str(job.folder) not in str(caught.value)
    assert job.num_rows("DESCRIBE spans") > 0
    assert job.num_rows("FROM steps") == 6


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(job: Job) -> None:
    for path in job.spans_files():
        path.unlink()
        os.mkfifo(path)
    with ThreadPoolExecutor(1) as threads:
        steps = threads.submit(job.num_rows, "FROM steps")
        spans = threads.submit(job.num_rows, "FROM spans")
        try:
            assert steps.result(20) == 6
        except TimeoutError:
            job.close()
            raise
    with pytest.raises(UserError, match=r"spans cannot be read: it is not a regular file$"):
        spans.result(20)
