"""A snapshot reads its run and nothing else, and passes on DuckDB's error for wrong SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.query.manifest import Narrowing
from ingest.run import open_run
from ingest.stopping import Interrupted
from tests.runs_builder import two_rank_run


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    with open_run(two_rank_run(tmp_path / "run").folder) as opened:
        yield opened


def test_a_table_without_files_is_empty_not_missing(run) -> None:  # type: ignore[no-untyped-def]
    files = run.snapshot.files("frames", Narrowing(rank_min=0))
    assert run.snapshot.execute("FROM rows_of($f)", {"f": files}, 10).num_rows == 0


def test_nothing_outside_the_run_can_be_read(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "secret.txt").write_text("x")
    with pytest.raises(UserError, match="Permission Error"):
        run.snapshot.execute("FROM read_text($f)", {"f": str(tmp_path / "secret.txt")}, 10)


def test_a_query_ends_with_its_limit(run) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Interrupted, match=r"took longer than 0.05 s"):
        run.snapshot.execute(
            "SELECT sum(a.i * b.i) FROM range(9999999) a(i), range(9999) b(i)", {}, 0.05
        )


def test_answers_about_the_index_are_cached_and_not_shared(run) -> None:  # type: ignore[no-untyped-def]
    first = run.snapshot.index_rows("SELECT count(*) AS n FROM files", {}, 10)
    first.append({"n": -1})
    assert len(run.snapshot.index_rows("SELECT count(*) AS n FROM files", {}, 10)) == 1
