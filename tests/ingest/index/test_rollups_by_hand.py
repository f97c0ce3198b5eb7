"""Rollups of recorded and generated runs, against the same sums made moment by moment."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from ingest.index.indexer import Indexer
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.folders import REPO
from tests.ingest.index.rollups_by_hand import Row, cells_by_hand, windows

NUM_CELLS = 6
"""Cells of a run that are compared, the same ones each time."""

STEPS = (
    *("compute", "recompute", "comm", "exposed_comm", "data_wait", "data_fetch", "other"),
    *("covered", "eager", "compiled", "graphed", "imported"),
    *("bubble", "bubble_late", "bubble_other", "window"),
)
GENERATED = {
    "skewed clocks": SyntheticJob(
        16, 2, 2, 5, faults=(SyntheticFault.parse("clock_unaligned,ms=90"),)
    ),
    "checkpoints": SyntheticJob(16, 2, 2, 14, save_ms=80.0),
    "interleaved, each module": SyntheticJob(16, 4, 2, 4, chunks=2, ops=True),
}


def a_run(name: str, folder: Path) -> Path:
    """A copy of a recorded run, or one that is generated."""
    if name in GENERATED:
        generate(GENERATED[name], folder)
    else:
        recorded = REPO / "sample_traces" / "recorded" / name
        shutil.copytree(recorded, folder, ignore=shutil.ignore_patterns("index"))
    return folder


def answers(indexer: Indexer, text: str) -> list[Row]:
    rows: list[Row] = indexer.database.connection.sql(text).to_arrow_table().to_pylist()
    return rows


@pytest.mark.parametrize("name", ["healthy", "slow_rank", *GENERATED])
def test_the_index_sums_up_what_each_moment_went_to(tmp_path: Path, name: str) -> None:
    run = a_run(name, tmp_path / "run")
    with Indexer(run) as indexer:
        indexer.refresh()
        clocks = defaultdict(list)
        for row in answers(indexer, "FROM clock_offsets ORDER BY rank, valid_from_ns"):
            names = ("valid_from_ns", "ts_ns", "offset_ns", "drift_ppb")
            clocks[row["rank"]].append(tuple(row[name] for name in names))
        groups = answers(indexer, "SELECT group_id, len(ranks) AS size FROM group_members")
        steps = {(r["rank"], r["step"]): r for r in answers(indexer, "FROM step_rollup")}
        kinds = defaultdict(dict)
        for row in answers(indexer, "FROM kind_rollup"):
            values = row["time_ns"], row["exposed_ns"], row["num_spans"]
            kinds[row["rank"], row["step"]][row["kind"]] = values
    wanted = random.Random(name).sample(sorted(windows(run)), NUM_CELLS)
    sizes = {row["group_id"]: row["size"] for row in groups}
    for cell, (sums, by_kind) in cells_by_hand(run, clocks, sizes, wanted).items():
        found = steps[cell]
        of_cell = {part: found[f"{part}_ns"] for part in STEPS}
        expected = {part: sums.get(part, 0) for part in STEPS}
        if found["bubble_ns"] is None:  # a member's clock is not known
            assert name == "skewed clocks"
            of_cell |= {part: expected[part] for part in STEPS if part.startswith("bubble")}
        assert of_cell == expected, cell
        assert found["num_spans"] == sums["spans"]
        assert kinds[cell] == by_kind, cell


def test_no_span_step_or_collective_is_left_out_or_counted_twice(tmp_path: Path) -> None:
    run = a_run("healthy", tmp_path / "run")
    with Indexer(run) as indexer:
        indexer.refresh()
        folder = f"{run}/compacted"
        ((spans, in_steps, in_kinds),) = indexer.database.connection.execute(
            "SELECT (SELECT count(*) FROM read_parquet($spans)),"
            " (SELECT sum(num_spans) FROM step_rollup), (SELECT sum(num_spans) FROM kind_rollup)",
            {"spans": f"{folder}/spans-*.parquet"},
        ).fetchall()
        ((rows, num_bytes), (summed, bytes_summed)) = indexer.database.connection.execute(
            "SELECT count(*), sum(num_bytes) FILTER (num_bytes > 0) FROM read_parquet($rows)"
            " UNION ALL SELECT sum(num_instances), sum(num_bytes) FROM collective_rollup",
            {"rows": f"{folder}/collectives-*.parquet"},
        ).fetchall()
    assert spans == in_steps == in_kinds
    assert (rows, num_bytes) == (summed, bytes_summed)
