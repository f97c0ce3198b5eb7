"""MegaScan traces: hand-built files of one rank and aggregated ones, and a real job of both."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.folders import NO_TRACES, TRACES
from tests.reader_results import Imported

Json = dict[str, Any]


def iteration(*rows: Json, dur_ns: int = 1000) -> list[Json]:
    end = {
        "name": "iteration",
        "ph": "E",
        "rel_ts": dur_ns,
        "duration_cuda": dur_ns,
        "duration_wall": dur_ns + 9,
    }
    return [{"name": "iteration", "ph": "B", "pad_before": 5}, *rows, end]


def pair(name: str, begin: int, end: int, **more: Any) -> list[Json]:
    return [
        {"name": name, "ph": "B", "rel_ts": begin},
        {"name": name, "ph": "E", "rel_ts": end, **more},
    ]


def write(folder: Path, dp: int, pp: int, tp: int, rows: list[Json]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"benchmark-data-{dp}-pipeline-{pp}-tensor-{tp}.json"
    path.write_text(json.dumps(rows))
    return path


def test_iterations_are_steps_and_pairs_are_spans(tmp_path: Path, runs: Path) -> None:
    labels = {"microbatch": 3, "model_chunk": 1}
    rows = [
        *iteration(*pair("forward", 10, 60, **labels), *pair("_reduce", 70, 80, data=512)),
        *iteration(*pair("backward-warmup", 5, 50), dur_ns=400),
    ]
    write(tmp_path / "in", 0, 0, 0, rows)
    write(tmp_path / "in", 0, 1, 0, iteration(*pair("forward", 90, 95, **labels)))
    run = Imported(tmp_path / "in", into=runs)
    assert run.info["clock"] == "per_step_relative"
    assert run.rows("steps", "rank", "step", "start_ns", "dur_ns") == [
        (0, 0, 0, 1000),
        (0, 1, 0, 400),
        (1, 0, 0, 1000),
    ]
    columns = ("rank", "step", "ts_ns", "dur_ns", "kind", "name", "microbatch", "chunk")
    assert run.rows("spans", *columns) == [
        (0, 0, 10, 50, "forward", "forward", 3, 2),  # chunk 1 of stage 0 of 2
        (0, 0, 70, 10, "tp_comm", "_reduce", -1, -1),
        (0, 1, 5, 45, "backward", "backward-warmup", -1, -1),
        (1, 0, 90, 5, "forward", "forward", 3, 3),
    ]
    assert ("tp_comm", 512) in run.rows("spans", "kind", "num_bytes")
    assert run.ranks[1]["coords"] == {"pp": 1, "dp": 0, "tp": 0}
    assert run.info["events_per_rank"] == {"0": 10, "1": 4}
    assert run.problems == []


def test_parts_of_a_pass_are_of_its_kind(tmp_path: Path, runs: Path) -> None:
    inside = [*pair("attention", 20, 30), *pair("send-forward", 40, 45, group=[2])]
    begin, end = pair("forward", 10, 60)
    rows = iteration(begin, *inside, end, *pair("something", 70, 80))
    run = Imported(write(tmp_path / "in", 0, 0, 0, rows), into=runs)
    assert run.rows("spans", "name", "kind", "depth", "peer") == [
        ("forward", "forward", 0, -1),
        ("attention", "forward", 1, -1),
        ("send-forward", "pp_comm", 1, 2),
        ("something", "host", 0, -1),
    ]


def test_iterations_written_twice_count_once(tmp_path: Path, runs: Path) -> None:
    first, second = iteration(*pair("forward", 1, 2)), iteration(*pair("forward", 1, 3))
    path = write(tmp_path / "in", 0, 0, 0, [*first, *first, *second, *second])
    run = Imported(path, into=runs)
    assert run.rows("spans", "step", "dur_ns") == [(0, 1), (1, 2)]
    assert "contains 2 iterations twice; each is read once" in run.problems[0]


def test_ranks_by_coordinates_and_a_grid_with_gaps(tmp_path: Path, runs: Path) -> None:
    rows = iteration(*pair("forward", 1, 2))
    for dp, pp, tp in ((0, 0, 0), (1, 0, 1), (1, 1, 1)):
        write(
            tmp_path / "gaps", dp, pp, tp, [*rows, {"x": tp, "name": "n", "ph": "i", "rel_ts": dp}]
        )
    run = Imported(tmp_path / "gaps", into=runs)
    assert set(run.ranks) == {0, 1, 2}
    assert {info["world_size"] for info in run.ranks.values()} == {-1}
    assert any("do not fill a complete grid" in guess for guess in run.guesses)
    known = tmp_path / "known"
    for rank in (4, 5):
        row = {"name": "x", "ph": "i", "rel_ts": 1, "g_rk": rank, "dp_rk": 0, "pp_rk": 1}
        write(known, 0, 1, rank - 4, [*rows, row])
    run = Imported(known, into=runs)
    assert set(run.ranks) == {4, 5}
    assert run.ranks[4]["layout"] is None


def test_damage_costs_only_itself(tmp_path: Path, runs: Path) -> None:
    rows = iteration(
        {"name": "forward", "ph": "E", "rel_ts": 3},
        {"name": "backward", "ph": "B", "rel_ts": 5},
        {"name": "forward", "ph": "B", "rel_ts": "soon"},
        {"name": None, "ph": "B", "rel_ts": 5},
        *pair("forward", 10, 20, microbatch=10**30, group=[10**30], data=-4),
        *pair("optimizer", 10**30, 10**30),
    )
    path = write(tmp_path / "in", 0, 0, 0, [*rows, *iteration(*pair("forward", 1, 2))])
    path.write_text(path.read_text()[:-200])
    run = Imported(path, into=runs)
    assert run.rows("spans", "name", "dur_ns", "microbatch", "num_bytes") == [
        ("backward", 15, -1, -1),
        ("forward", 10, -1, -1),
    ]
    problems = "\n".join(run.problems)
    assert "cut off at byte" in problems
    assert "4 rows without a usable time or name left out" in problems
    assert "1 ends without a begin left out" in problems
    assert "1 spans never end; shown up to their track's last event" in problems


def test_an_aggregated_file_in_any_order(tmp_path: Path, runs: Path) -> None:
    def event(ph: str, ts: float, pid: int, **args: Any) -> Json:
        return {
            "name": "forward",
            "ph": ph,
            "ts": ts,
            "pid": pid,
            "tid": 0,
            "args": {"iteration": 7, "dp_rk": 0, "pp_rk": pid, **args},
        }

    again = event("B", 100, 1)
    events = [
        event("E", 200.5, 0, micro_batch_index=4, model_chunk=0),
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "DP0-PP0-TP0"}},
        event("B", 100, 0),
        again,
        again,
        event("E", 160, 1, related_sync_op="1 2"),
        {**event("X", 300, 1), "dur": 5},
        {**event("B", 300, 1), "pid": "x"},
    ]
    path = tmp_path / "aggregated.json"
    path.write_text(json.dumps(events))
    run = Imported(path, into=runs)
    assert run.info["clock"] == "unknown"
    assert run.rows("spans", "rank", "step", "ts_ns", "dur_ns", "microbatch", "chunk") == [
        (0, 7, 100_000, 100_500, 4, 0),
        (1, 7, 100_000, 60_000, -1, -1),
        (1, 7, 300_000, 5_000, -1, -1),
    ]
    assert run.ranks[1]["layout"]["axes"] == {"pp": 2, "dp": 1, "tp": 1}
    assert "contains 1 rows twice; each is read once" in run.problems[0]
    assert "1 rows without a usable time, name or rank" in run.problems[1]


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_rank_that_no_job_has_costs_only_its_rows(tmp_path: Path, runs: Path) -> None:
    args = {"iteration": 0, "model_chunk": 0}
    rows = [
        {"name": "forward", "ph": ph, "pid": pid, "tid": 0, "ts": ts, "args": args}
        for pid in (0, 10**30, 200_000, 1)
        for ph, ts in (("B", 1), ("E", 5))
    ]
    path = tmp_path / "aggregated.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    run = Imported(path, into=runs)
    assert set(run.ranks) == {0, 1}
    assert [problem.partition(": ")[2] for problem in run.problems] == [
        "4 rows without a usable time, name or rank left out"
    ]


@pytest.mark.parametrize("name", ["pp4", "pp4-aggregated.json"])
def test_a_real_job(name: str, runs: Path) -> None:
    run = Imported(TRACES / "megascan" / name, into=runs)
    assert run.problems == []
    assert {info["layout"]["axes"]["pp"] for info in run.ranks.values()} == {4}
    assert len(set(run.rows("steps", "step"))) == 20
    if name == "pp4":
        assert run.info["events_per_rank"] == {str(rank): 2600 for rank in range(4)}
    durations: dict[tuple[int, str], list[int]] = {}
    for rank, kind, dur_ns in run.rows("spans", "rank", "kind", "dur_ns"):
        durations.setdefault((rank, kind), []).append(dur_ns)
    found = {key: round(median(values) / 1e6, 2) for key, values in durations.items()}
    assert found == {
        (0, "forward"): 3.57,
        (0, "backward"): 7.15,
        (1, "forward"): 3.14,
        (1, "backward"): 6.77,
        (2, "forward"): 3.19,
        (2, "backward"): 7.15,
        (3, "forward"): 4.09,
        (3, "backward"): 7.22,
    }
    assert {number for (number,) in run.rows("spans", "chunk")} == set(range(16))  # 4 of each stage
