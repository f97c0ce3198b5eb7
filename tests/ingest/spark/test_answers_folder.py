"""Where a query that Spark answers puts the tables it reads: what can be said without a cluster."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest

from ingest.errors import UserError
from ingest.run import open_run
from ingest.spark.index_views import ANSWERED_S, answers_folder
from ingest.spark.questions import spark_answers
from tests.runs_builder import two_rank_run


def test_an_index_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    spark = cast(Any, None)  # it is not asked for anything
    with open_run(two_rank_run(tmp_path / "run").folder) as run:
        monkeypatch.setattr(tempfile, "mkdtemp", refused)
        said = r"index cannot be written \(Permission denied\)"
        with pytest.raises(UserError, match=said), spark_answers(spark, run):
            pass


def test_a_query_removes_its_folder_and_those_of_queries_that_were_killed(tmp_path: Path) -> None:
    killed, others = tmp_path / "answers-killed", tmp_path / "answers-others"
    for folder in (killed, others):
        folder.mkdir()
        (folder / "ranks.parquet").touch()
    long_ago_s = killed.stat().st_mtime - ANSWERED_S - 1
    os.utime(killed, (long_ago_s, long_ago_s))
    with answers_folder(tmp_path) as own:
        assert set(tmp_path.iterdir()) == {own, others}, "another query may still read it"
    assert list(tmp_path.iterdir()) == [others]
