"""The questions about operations and micro-batches: rows in, table out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.run import Run, open_run
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout


@pytest.fixture
def run(tmp_path: Path):
    """pp 2, dp 2; two micro-batches: forward 30 us with a layer inside, recomputed, backward 50."""
    builder = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, dp=2))
    for step in range(3):
        for rank in range(4):
            t = step * 1000.0
            for batch in range(2):
                at, where = t + 200 * batch, {"microbatch": batch, "chunk": rank // 2}
                builder.span(
                    rank, step, "forward", at, at + 30, name="stage", cpu_ns=20_000, **where
                )
                builder.span(
                    rank, step, "forward", at, at + 25, name=f"layers.{batch}", depth=1, **where
                )
                builder.span(rank, step, "forward", at + 30, at + 60, recompute=True, **where)
                builder.span(rank, step, "backward", at + 60, at + 100, name="stage", **where)
                builder.span(rank, step, "wgrad", at + 100, at + 110, name="stage", **where)
            builder.step(rank, step, t, t + 1000)
            for source in ("a", "b"):
                builder.add(
                    "data_batches", rank, step, ts_ns=0, source=source, tokens=100, sum_sq_len=5_000
                )
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as opened:
        yield opened


def test_microbatch_work(run: Run) -> None:
    rows = run.ask("microbatch_work", step_min=1, step_max=1).to_pylist()
    assert [(row["rank"], row["microbatch"], row["chunk"]) for row in rows] == [
        (0, 0, 0),
        (0, 1, 0),
        (1, 0, 0),
        (1, 1, 0),
    ]
    assert rows[0]["forward_ms"] == pytest.approx(0.030)  # the layer lies inside
    assert rows[0]["backward_ms"] == pytest.approx(0.050)
    assert rows[0]["forward_cpu_ms"] == pytest.approx(0.020)
    assert rows[0]["backward_cpu_ms"] is None
    assert (rows[0]["tokens"], rows[0]["sum_sq_len"]) == (200.0, 10_000.0)


def test_op_times(run: Run) -> None:
    rows = run.ask("op_times", step_min=2).to_pylist()
    assert {(row["rank"], row["step"]) for row in rows} == {(rank, 2) for rank in range(4)}
    times = {row["name"]: (row["op_ms"], row["num_spans"]) for row in rows if row["rank"] == 3}
    assert times["layers.*"] == (pytest.approx(0.050), 2)
    typical = {row["name"]: row["typical_ms"] for row in rows if row["rank"] == 3}
    assert typical["layers.*"] == pytest.approx(0.050)  # one span of each kind
    assert times["stage"] == (pytest.approx(2 * (0.030 + 0.040 + 0.010)), 6)


def test_runs_without_forwards(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "empty", 1)
    builder.step(0, 0, 0, 100)
    builder.publish()
    with open_run(builder.folder) as run:
        assert run.ask("microbatch_work").num_rows == 0
        assert run.ask("op_times").num_rows == 0
