"""The questions whatif_ops and whatif_spans: rows in, table out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ingest.run import open_run
from tests.ingest.query.built_run import answer
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.layout import ParallelLayout


def test_operations_are_numbered_by_start_in_step_and_cell(tmp_path: Path) -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=2)
    run = RunBuilder(tmp_path / "run", 4, layout, clock="per_step_relative")
    ops = (
        ("forward-send", 5, -1),
        ("forward-compute", 7, 2),
        ("forward-compute", 1, 0),
        ("params-all-gather", 0, 2),
        ("forward-send", 2, -1),
    )
    for step in (3, 4):
        for name, start_ns, chunk in ops:
            run.add(
                "spans", 1, step, name=name, ts_ns=start_ns * 10**9, dur_ns=5 * 10**8, chunk=chunk
            )
    run.add("spans", 2, 3, name="something else", ts_ns=10**9, dur_ns=1)
    rows = answer(run, "whatif_ops").to_pylist()
    found = {
        (r["optype"], r["seq"]): (r["dp"], r["stage"], r["chunk"], r["start_s"], r["duration_s"])
        for r in rows
        if r["rank"] == 1 and r["step"] == 4
    }
    assert found == {
        ("forward-compute", 0): (1, 0, 0, 1.0, 0.5),
        ("forward-compute", 1): (1, 0, 1, 7.0, 0.5),
        ("forward-send", 0): (1, 0, -1, 2.0, 0.5),
        ("forward-send", 1): (1, 0, -1, 5.0, 0.5),
        ("params-all-gather", 0): (1, 0, 1, 0.0, 0.5),
    }
    (other,) = [row for row in rows if row["rank"] == 2]
    assert (other["optype"], other["stage"], other["dp"]) == (None, 1, 0)


def test_times_are_float32_as_in_the_file(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 1, ParallelLayout.from_sizes(dp=1))
    run.add("spans", 0, 0, name="forward-compute", ts_ns=0, dur_ns=5)
    run.add("spans", 0, 0, name="optimizer", ts_ns=46_649_176_025, dur_ns=42_361_999)
    table = answer(run, "whatif_ops")
    assert table["start_s"].type == table["duration_s"].type == pa.float32()
    assert sorted(table["start_s"].to_pylist()) == [0.0, pytest.approx(46.649176025, rel=1e-7)]


def test_absolute_times_count_from_the_first_operation_of_the_step(tmp_path: Path) -> None:
    """Of two tensor-parallel ranks the first stands for the cell, without parts of operations."""
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(tp=2))
    for rank, step, name, at_s in (
        (1, 0, "optimizer", 0),
        (0, 0, "optimizer", 1),
        (0, 0, "optimizer-inner-step", 1),
        (0, 1, "optimizer", 9),
    ):
        run.add("spans", rank, step, name=name, ts_ns=T0 + at_s * 10**9, dur_ns=10**8)
    rows = answer(run, "whatif_ops").to_pylist()
    assert sorted((r["rank"], r["step"], r["optype"], r["start_s"]) for r in rows) == [
        (0, 0, "optimizer", 0.0),
        (0, 1, "optimizer", 0.0),
    ]


def test_ranks_of_a_cell_are_numbered_on_the_aligned_clock(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 4, ParallelLayout.from_sizes(pp=2, tp=2))
    for rank in range(4):
        run.add("clocks", rank, -1, ts_ns=T0, offset_ns=rank * 1000 * US)
        run.span(rank, 1, "forward", 10, 20, microbatch=0, chunk=rank // 2, name="F")
        run.span(rank, 1, "forward", 30, 35, recompute=True, microbatch=0)
        run.span(rank, 1, "tp_comm", 12, 13, depth=1)
    run.collective(0, 1, 7, 5, 20, 22, op="send", peer=2, tag=4)
    run.collective(1, 1, 8, 0, 20, 22, op="send", peer=3, tag=0)
    run.collective(2, 1, 7, 5, 1, 22, op="recv", peer=0, tag=4)
    run.collective(2, 1, 7, 6, 30, -1, op="recv", peer=0, tag=4)
    rows = answer(run, "whatif_spans").to_pylist()
    places = {(row["rank"], row["stage"], row["dp"], row["member"]) for row in rows}
    assert places == {(0, 0, 0, 0), (1, 0, 0, 1), (2, 1, 0, 0), (3, 1, 0, 1)}
    second = {row["kind"]: row for row in rows if row["rank"] == 2}
    kinds = ["backward", "forward", "recv", "tp_comm"]  # a forward done again is backward
    assert sorted(second) == kinds
    forward, receive = second["forward"], second["recv"]
    assert forward["begin_ns"] == T0 + 2010 * US
    assert (forward["dur_ns"], forward["chunk"], forward["microbatch"]) == (10 * US, 1, 0)
    assert (receive["peer"], receive["tag"], receive["seq"], receive["dur_ns"]) == (
        0,
        4,
        5,
        21 * US,
    )
    assert all(row["is_aligned"] for row in rows)


def test_how_long_a_receiver_stood_still(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(pp=2))
    for seq, waited_us in ((0, 15), (1, 30), (2, None)):
        run.collective(1, 1, 7, seq, 10, 40, op="recv", peer=0, tag=0)
        if waited_us is not None:
            span = {"group_id": 7, "coll_seq": seq, "peer": 0, "name": "recv"}
            run.span(1, 1, "pp_comm", 40 - waited_us, 40, **span)
    rows = answer(run, "whatif_spans").to_pylist()
    assert {row["seq"]: row["waited_ns"] for row in rows} == {0: 15 * US, 1: 30 * US, 2: -1}


def test_unknown_clocks_and_coordinates_are_marked(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, hosts=["a", "b"])
    for rank in range(2):
        run.span(rank, 0, "backward", 0, 10)
    rows = answer(run, "whatif_spans").to_pylist()
    assert len(rows) == 1  # nothing distinguishes the ranks: the first one stands for all
    assert (rows[0]["stage"], rows[0]["dp"], rows[0]["is_aligned"]) == (None, None, False)


def test_each_span_has_the_clock_estimate_of_its_time(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 1, ParallelLayout.from_sizes(pp=1))
    for at_us, offset_us in ((5, 100), (20, 200), (40, 300), (60, 400), (80, 500)):
        run.add("clocks", 0, -1, ts_ns=T0 + at_us * US, offset_ns=offset_us * US)
    for step, begin in enumerate((0, 30, 39, 40, 59, 70)):
        run.step(0, step, begin, begin + 1)
        run.span(0, step, "forward", begin, begin + 1)
    wanted = {0: 100, 30: 230, 39: 239, 40: 340, 59: 359, 70: 470}
    rows = answer(run, "whatif_spans").to_pylist()
    assert {(row["begin_ns"] - T0) // US for row in rows} == set(wanted.values())
    for step, begin in enumerate(wanted):  # estimates beyond the step are not read
        rows = answer(run, "whatif_spans", step_min=step, step_max=step).to_pylist()
        assert [(row["begin_ns"] - T0) // US for row in rows] == [wanted[begin]]


def test_steps_are_narrowed(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 1, ParallelLayout.from_sizes(dp=1))
    for step in range(-1, 5):
        run.span(0, step, "forward", step * 10, step * 10 + 5)
    run.rank_files()
    run.publish()
    with open_run(run.folder) as opened:
        for name in ("whatif_spans", "whatif_ops"):
            steps = opened.ask(name, step_min=1, step_max=3)["step"].to_pylist()
            assert sorted(steps) == [1, 2, 3]
            assert min(opened.ask(name)["step"].to_pylist()) == 0


def test_memory_of_a_stage_is_what_the_forward_of_a_micro_batch_keeps(tmp_path: Path) -> None:
    run = RunBuilder(tmp_path / "run", 2, ParallelLayout.from_sizes(pp=2))

    def forward(rank: int, step: int, kept: int | None, **more: object) -> None:
        args = None if kept is None else f'{{"kept":{kept}}}'
        run.span(rank, step, "forward", 0, 10, args=args, **more)

    for microbatch, kept in enumerate((10, 30, 20, None)):
        for chunk in (0, 2):
            forward(0, 1, kept, microbatch=microbatch, chunk=chunk)
    forward(1, 1, 5, microbatch=0, chunk=1)
    forward(1, 1, -2, microbatch=0, chunk=1, name="loss")
    forward(1, 70, 500, microbatch=0, chunk=1)
    for step, peak in ((0, 80), (1, 90), (2, 90)):
        run.add("memory", 0, step, ts_ns=T0, allocated=7, peak=peak)
    rows = answer(run, "stage_memory").to_pylist()
    assert rows == [
        {"rank": 0, "stage": 0, "kept_bytes": 40.0, "peak_bytes": 90, "num": 6},
        {"rank": 1, "stage": 1, "kept_bytes": 3.0, "peak_bytes": None, "num": 2},
    ]
    (later,) = answer(run, "stage_memory", step_min=64, step_max=80).to_pylist()
    assert (later["rank"], later["kept_bytes"]) == (1, 500.0)
