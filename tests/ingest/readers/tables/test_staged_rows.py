"""What a reader staged is handed over in order, or dropped without a trace."""

from __future__ import annotations

import pickle  # noqa: TID251  # what the test itself packed
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.staged_rows import StagedRows
from ingest.run_folder.run_writer import RunWriter


def _staged(folder: Path) -> StagedRows:
    staged = StagedRows(folder)
    staged.add_rank(rank_info(1, started_ns=5, ended_ns=9))
    staged.add_rows("steps", 1, rows("steps", 1, {"rank": 1, "start_ns": 5, "dur_ns": 4}))
    staged.add_problem("a problem")
    staged.add_guess("a guess")
    staged.set_clock("unknown")
    return staged


def test_a_run_gets_all_of_it_once(tmp_path: Path) -> None:
    staged = pickle.loads(pickle.dumps(_staged(tmp_path)))
    assert staged.started_ns == 5
    (tmp_path / "run" / "segments").mkdir(parents=True)
    writer = RunWriter(tmp_path / "run")
    staged.give_to(writer)
    staged.give_to(writer)
    assert list(writer.ranks) == [1]
    assert (writer.found.problems, writer.found.guesses) == (["a problem"], ["a guess"])
    assert writer.found.clock == "unknown"
    assert [path.name for path in (tmp_path / "run").rglob("*.parquet")] == [
        "steps-0000-00001-00000000.parquet"
    ]


def test_staged_rows_of_a_table_can_be_revised(tmp_path: Path) -> None:
    staged = _staged(tmp_path)
    staged.add_rows("marks", 1, rows("marks", 1, {"rank": 1, "ts_ns": 5, "kind": "x", "text": "y"}))
    staged.revise("steps", lambda table: table.slice(0, 0))
    (tmp_path / "run" / "segments").mkdir(parents=True)
    staged.give_to(RunWriter(tmp_path / "run"))
    num_rows = {path.name[:5]: pq.read_table(path).num_rows for path in tmp_path.rglob("*.parquet")}
    assert num_rows == {"steps": 0, "marks": 1}


def test_what_is_dropped_leaves_no_file(tmp_path: Path) -> None:
    staged = _staged(tmp_path)
    assert list(tmp_path.glob("*.parquet"))
    staged.drop()
    assert not list(tmp_path.glob("*.parquet"))
    assert staged.another().started_ns is None


def test_a_rank_that_no_job_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="RANKSCOPE_MAX_RANKS"):
        StagedRows(tmp_path).add_rank(rank_info(1 << 40))
