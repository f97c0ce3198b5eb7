"""The run folder that an import makes: segments numbered by rank, its own description."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest.readers.tables.rows import rank_info, rows
from ingest.run_folder.run_writer import Findings, RunWriter, check_rank, has_start


def test_segments_are_numbered_and_can_be_removed(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path)
    for _ in range(2):
        writer.add_rows("steps", 4, rows("steps", 1, {"rank": 4, "start_ns": 0, "dur_ns": 1}))
    names = sorted(path.name for path in tmp_path.rglob("*.parquet"))
    assert names == [f"steps-0000-00004-0000000{n}.parquet" for n in range(2)]
    writer.remove_rows("steps")
    assert not list(tmp_path.rglob("*.parquet"))


def test_sentences_are_clean(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path)
    writer.add_problem("a\x1b[2J file")
    assert writer.found.problems[0].isprintable()


def test_findings_come_back_from_json() -> None:
    findings = Findings({1: rank_info(1)}, ["guess"], ["problem"], {1: 5}, "unknown")
    assert Findings.from_json(json.loads(json.dumps(findings.to_json()))) == findings


def test_ranks_and_starts() -> None:
    with pytest.raises(ValueError, match="RANKSCOPE_MAX_RANKS"):
        check_rank(rank_info(-1))
    assert has_start(rank_info(0, started_ns=5, ended_ns=9))
    assert not has_start(rank_info(0))


def test_several_files_of_a_rank_widen_its_time_in_any_order(tmp_path: Path) -> None:
    for number, order in enumerate(([(50, 90), (10, 20)], [(10, 20), (50, 90)])):
        (tmp_path / str(number)).mkdir()
        writer = RunWriter(tmp_path / str(number))
        for started_ns, ended_ns in order:
            writer.add_rank(rank_info(0, started_ns=started_ns, ended_ns=ended_ns))
        assert (writer.ranks[0]["started_ns"], writer.ranks[0]["end"]["ts_ns"]) == (10, 90)
