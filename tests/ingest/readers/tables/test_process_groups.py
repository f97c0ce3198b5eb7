"""Axes and layout by the names of process groups; none is invented."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.readers.kineto.profiler_files import Json, collective, event, write
from tests.reader_results import Imported


def test_axes_and_layout_where_the_groups_name_them(tmp_path: Path, runs: Path) -> None:
    def info(rank: int) -> Json:
        tp = [rank // 2 * 2, rank // 2 * 2 + 1]
        dp = [rank % 2, rank % 2 + 2]
        configs = [
            {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]},
            {"pg_name": "1", "pg_desc": "mesh_dp", "ranks": dp},
            {"pg_name": "2", "pg_desc": "mesh_tp", "ranks": str(tp)},  # text, as on demand
        ]
        return {"rank": rank, "world_size": 4, "pg_config": configs}

    args = {**collective("allreduce"), "Process Group Name": "2"}
    del args["Process Group Ranks"]
    for rank in range(4):
        events = [event("ncclDevKernel_AllReduce", 0, 5, "kernel", args=args)]
        write(tmp_path / "in" / f"{rank}.json", events, None, distributedInfo=info(rank))
    run = Imported(tmp_path / "in", into=runs)
    assert run.ranks[3]["layout"]["axes"] == {"dp": 2, "tp": 2}
    assert run.ranks[2]["coords"] == {"dp": 1, "tp": 0}
    assert set(run.rows("groups", "axis")) == {("tp",)}
    assert set(run.rows("spans", "kind")) == {("tp_comm",)}
    assert run.info["guesses"] == []


def test_no_layout_is_invented(tmp_path: Path, runs: Path) -> None:
    configs = [{"pg_name": "1", "pg_desc": "mesh_tp", "ranks": [0, 1]}]  # half of the world
    info = {"rank": 0, "world_size": 4, "pg_config": configs}
    path = write(tmp_path / "a.json", [event("a", 0, 1)], None, distributedInfo=info)
    run = Imported(path, into=runs)
    assert run.ranks[0]["layout"] is None
    assert any("layout is unknown" in guess for guess in run.info["guesses"])
