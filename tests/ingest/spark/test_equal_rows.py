"""Spark gives what DuckDB gives, row by row: rollups, merged files, shared questions.

Rows are compared exactly, floats too. Sums are of whole numbers below 2^53, which are the same in
any order, and both engines divide them by the rules of IEEE 754.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.index import compaction
from ingest.index.engine import Engine
from ingest.run import open_run
from ingest.spark.dialect import SHARED_QUESTIONS
from ingest.spark.engine import SparkEngine
from ingest.spark.questions import spark_answers
from tests.ingest.spark.compared_runs import RUNS, generated, indexed, unusual

pytestmark = pytest.mark.spark

PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "heat_map": [{"metric": name} for name in ("step_time", "wait", "cpu", "not_visible")],
    "rank_cells": [{"metric": name} for name in ("work", "wait_caused", "exposed_dp")],
    "late_ranks": [{}, {"axis": "all"}, {"attempt": 0, "step_max": 4}],
    "slowest_ranks": [{}, {"top": 3, "step_min": 2, "step_max": 5}],
    "rank_work": [{}, {"pp": 1}],
}


def rows(answer: pa.Table) -> list[str]:
    """Sorted: no query orders rows with equal values, as of two attempts."""
    return sorted(repr(tuple(row.values())) for row in answer.to_pylist())


@pytest.mark.parametrize("name", RUNS)
def test_rollups_and_questions_are_equal(name: str, spark: Any, tmp_path: Path) -> None:
    here, there = RUNS[name](tmp_path / "here"), RUNS[name](tmp_path / "there [1]")
    expected = indexed(here, Engine())
    assert expected["step_rollup"]
    assert indexed(there, SparkEngine(spark)) == expected
    num_rows = 0
    with open_run(there) as run, spark_answers(spark, run) as answer:
        for question in SHARED_QUESTIONS:
            several = PARAMETERS.get(question, [{}])
            for params in several if name == "generated" else several[:1]:
                ours, theirs = run.ask(question, **params), answer(question, **params)
                assert theirs.column_names == ours.column_names
                assert rows(theirs) == rows(ours), (question, params)
                num_rows += ours.num_rows
    assert num_rows > 0


def test_many_segments_are_merged_by_the_cluster(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CLOSED_S", -1.0)
    here, there = (unusual(tmp_path / name, num_segments=8) for name in ("here", "there"))
    assert indexed(there, SparkEngine(spark)) == indexed(here, Engine())
    merged = [len(list((folder / "compacted").iterdir())) for folder in (here, there)]
    assert merged[0] == merged[1] > 0


def test_a_damaged_segment_is_set_aside_by_both(spark: Any, tmp_path: Path) -> None:
    found = []
    for name, engine in (("here", Engine()), ("there", SparkEngine(spark))):
        folder = generated(tmp_path / name)
        damage(next((folder / "compacted").glob("spans-*")))
        found.append(indexed(folder, engine))
        with open_run(folder) as run:
            assert len(run.problems) == 1
            assert "was set aside" in run.problems[0]
    assert found[0] == found[1]


def damage(file: Path) -> None:
    """Overwrite the pages of its first half; the footer stays as it was."""
    data = file.read_bytes()
    half = len(data) // 2
    file.write_bytes(data[:4] + bytes(half - 4) + data[half:])
