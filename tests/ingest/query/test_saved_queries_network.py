"""The questions about transfers, groups and ends of collectives: rows in, table out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.run import open_run
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

STEPS = 12


def four_ranks(folder: Path, ahead_us: float = 0.0, err_ns: int = 1000) -> RunBuilder:
    """Stages 0 and 1 on hosts a and b, two replicas each; every step an all-reduce per stage, one
    of all ranks and a send from each rank of stage 0. Clocks of host b are `ahead_us` unnoticed.
    """
    run = RunBuilder(
        folder / "run", 4, ParallelLayout.from_sizes(pp=2, dp=2), hosts=["a", "a", "b", "b"]
    )
    run.group(1, [0, 1], "dp")
    run.group(2, [2, 3], "dp")
    run.group(3, [0, 1, 2, 3], "world")
    for rank in range(4):
        own = ahead_us if rank > 1 else 0.0
        run.add("clocks", rank, -1, ts_ns=T0, err_ns=err_ns)
        for step in range(STEPS):
            t = step * 1000.0 + own
            run.step(rank, step, t, t + 1000)
            run.span(rank, step, "forward", t, t + 500)
            run.collective(rank, step, 1 + rank // 2, step, t + 500 + 10 * (rank % 2), t + 560)
            run.collective(rank, step, 3, step, t + 600 + 5 * rank, t + 635)
            other = rank + 2 if rank < 2 else rank - 2
            op = "send" if rank < 2 else "recv"
            run.collective(rank, step, 4, step, t + 700, t + 740 + step, op=op, peer=other, tag=0)
    run.rank_files()
    run.publish()
    return run


def test_transfers(tmp_path: Path) -> None:
    with open_run(four_ranks(tmp_path).folder) as run:
        rows = run.ask("transfers", step_min=2, step_max=2).to_pylist()
    found = {(row["group_id"], row["rank"], row["peer"]): row for row in rows}
    assert set(found) == {(1, -1, -1), (2, -1, -1), (3, -1, -1), (4, 0, 2), (4, 1, 3)}
    assert found[1, -1, -1]["transfer_ms"] == pytest.approx(0.05)
    assert found[1, -1, -1]["wait_ms"] == pytest.approx(0.01)
    assert found[3, -1, -1]["transfer_ms"] == pytest.approx(0.02)
    assert found[4, 0, 2]["transfer_ms"] == pytest.approx(0.042)
    assert found[4, 0, 2]["longest_ms"] == pytest.approx(0.042)
    assert {row["num_instances"] for row in rows} == {1}
    assert {row["num_bytes"] for row in rows} == {64}


def test_transfers_without_clocks_are_unknown(tmp_path: Path) -> None:
    run = four_ranks(tmp_path)
    for rank in range(4):
        run.add("clocks", rank, -1, ts_ns=T0 - 1, method="none")
    run.publish()
    with open_run(run.folder) as opened:
        rows = opened.ask("transfers").to_pylist()
    assert len(rows) == 5 * STEPS


def test_groups(tmp_path: Path) -> None:
    with open_run(four_ranks(tmp_path).folder) as run:
        rows = run.ask("groups").to_pylist()
    assert [(row["group_id"], row["axis"], row["ranks"]) for row in rows] == [
        (1, "dp", [0, 1]),
        (2, "dp", [2, 3]),
        (3, "world", [0, 1, 2, 3]),
    ]


@pytest.mark.parametrize(("ahead_us", "late_ms"), [(0.0, 0.0), (400.0, 0.4)])
def test_end_lateness(tmp_path: Path, ahead_us: float, late_ms: float) -> None:
    with open_run(four_ranks(tmp_path, ahead_us).folder) as run:
        rows = run.ask("end_lateness", blocks=3).to_pylist()
    assert {row["group_id"] for row in rows} == {3}  # the others sit on one host each
    assert [(row["block"], row["host"], row["first_step"], row["last_step"]) for row in rows] == [
        (block, host, 4 * block, 4 * block + 3) for block in range(3) for host in ("a", "b")
    ]
    late = {row["host"]: row["late_ms"] for row in rows}
    assert late == {"a": pytest.approx(0.0), "b": pytest.approx(late_ms)}
    assert {row["num_ends"] for row in rows} == {8}
    assert all(row["is_aligned"] for row in rows)


def test_data_gaps(tmp_path: Path) -> None:
    run = four_ranks(tmp_path)
    run.collective(1, 3, 1, 3, 3510, 3560)  # what is there already
    run.add("groups", 0, -1, group_id=9, name="g9", axis="dp", ranks=[0, 1])
    for step in range(STEPS):
        for rank in (0, 1):
            for number in (2 * step, 2 * step + 1):
                if (rank, number) != (1, 15):
                    begin = 1000 * step + 800 + 10 * (number % 2)
                    run.collective(rank, step, 9, number, begin, begin + 5)
    run.rank_files(end={"ts_ns": T0 + 10**10, "status": "finished", "error": None})
    run.publish()
    with open_run(run.folder) as opened:
        rows = opened.ask("data_gaps").to_pylist()
    assert rows == [
        {"rank": 1, "group_id": 1, "step": 3, "num_lost": 0, "num_twice": 1},
        {"rank": 1, "group_id": 9, "step": 7, "num_lost": 1, "num_twice": 0},
    ]


def test_nothing_is_lost(tmp_path: Path) -> None:
    with open_run(four_ranks(tmp_path).folder) as run:
        assert run.ask("data_gaps").num_rows == 0
