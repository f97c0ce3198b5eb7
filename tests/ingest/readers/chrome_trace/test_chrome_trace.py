"""Generic Chrome traces: hand-built ones for every kind of event, and a real one never closed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.imports.importer import import_paths
from tests.folders import NO_TRACES, TRACES
from tests.reader_results import Imported

Json = dict[str, Any]
T0 = 1719853884000000123


def x(name: str, ts: float, dur: float, **more: Any) -> Json:
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 2, **more}


def name_of(what: str, pid: object, text: object, **more: Any) -> Json:
    return {"ph": "M", "name": f"{what}_name", "pid": pid, "args": {"name": text}, **more}


def write(path: Path, events: list[Any], **header: Any) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps({"traceEvents": events, **header} if header else events))
    return path


def test_whole_events_pairs_and_what_is_no_span(tmp_path: Path, runs: Path) -> None:
    events = [
        x("outer", 10, 20.5),
        x("inner", 12, 5, cat="gc"),
        x("ncclDevKernel_AllReduce", 40, 1),
        {"ph": "B", "name": "b", "ts": 50, "pid": 1, "tid": 3},
        {"ph": "B", "name": "c", "ts": 51, "pid": 1, "tid": 3},
        {"ph": "E", "name": "b", "ts": 60, "pid": 1, "tid": 3},
        {"ph": "E", "ts": 65, "pid": 1, "tid": 3},
        {"ph": "b", "id": "0x1", "cat": "req", "name": "r", "ts": 1, "pid": 1},
        {"ph": "b", "id": "0x2", "cat": "req", "name": "r", "ts": 2, "pid": 1},
        {"ph": "e", "id": "0x1", "cat": "req", "name": "r", "ts": 4, "pid": 1},
        {"ph": "e", "id": "0x2", "cat": "req", "name": "r", "ts": 5, "pid": 1},
        {"ph": "i", "name": "instant", "ts": 1, "pid": 1},
        {"ph": "C", "name": "counter", "ts": 1, "pid": 1, "args": {"x": 1}},
        {"ph": "s", "id": 1, "name": "flow", "ts": 1, "pid": 1},
    ]
    run = Imported(write(tmp_path / "rank-3.json", events), into=runs)
    assert run.info["source"] == "chrome_trace"
    assert run.rows("spans", "track", "name", "ts_ns", "dur_ns", "kind", "depth") == [
        ("req", "r", 1_000, 3_000, "host", 0),
        ("req", "r", 2_000, 3_000, "host", 1),
        ("thread 2", "outer", 10_000, 20_500, "host", 0),
        ("thread 2", "inner", 12_000, 5_000, "gc", 1),
        ("thread 2", "ncclDevKernel_AllReduce", 40_000, 1_000, "other_comm", 0),
        ("thread 3", "b", 50_000, 10_000, "host", 0),
        ("thread 3", "c", 51_000, 14_000, "host", 1),
    ]
    assert run.info["clock"] == "unknown"
    assert run.info["events_per_rank"] == {"3": len(events)}
    assert "not read: 1 counters, 1 flows, 1 instants, which are not spans" in run.guesses


def test_a_process_per_rank_with_steps_is_read_back(tmp_path: Path, runs: Path) -> None:
    """What rankscope's own export writes: times from t0, the kind as category, steps as args."""
    events = [
        name_of("process", 7, "PP0-DP1-TP0 rank 4"),
        name_of("process", 8, "PP0-DP1-TP1 rank 5"),
    ]
    for pid in (7, 8):
        events += [
            name_of("thread", pid, "main", tid=1),
            x("step 9", 0, 10, pid=pid, tid=0, cat="step", args={"step": 9}),
            x("layer", 0.001, 3.25, pid=pid, tid=1, cat="forward", args={"step": 9}),
            x("late", 20, 1, pid=pid, tid=1, cat="kernel"),
            x("of none", 30, 1, pid=pid, tid=1, cat="host", args={"step": -1}),
        ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"metadata": {"t0_ns": str(T0)}, "traceEvents": events}))
    run = Imported(path, into=runs)
    assert run.info["clock"] == "absolute"
    columns = ("rank", "ts_ns", "dur_ns", "name", "kind", "track", "step")
    assert run.rows("spans", *columns) == [
        row
        for rank in (4, 5)
        for row in (
            (rank, T0 + 1, 3250, "layer", "forward", "main", 9),
            (rank, T0 + 20_000, 1000, "late", "kernel", "main", 9),
            (rank, T0 + 30_000, 1000, "of none", "host", "main", -1),
        )
    ]
    assert run.rows("steps", "rank", "step", "start_ns", "dur_ns") == [
        (rank, 9, T0, 10_000) for rank in (4, 5)
    ]
    assert run.info["events_per_rank"] == {"4": 6, "5": 6}


def test_a_rank_that_no_job_has_costs_only_its_process(tmp_path: Path, runs: Path) -> None:
    names = {1: "rank 0", 2: "rank 9999999", 3: "rank 1"}
    events = [name_of("process", pid, text) for pid, text in names.items()]
    events += [x(f"of {pid}", 10, 1, pid=pid) for pid in names]
    run = Imported(write(tmp_path / "x.json", events), into=runs)
    assert run.rows("spans", "rank", "name") == [(0, "of 1"), (1, "of 3")]
    assert [problem.partition(": ")[2] for problem in run.problems] == [
        "its processes name their ranks, but 1 do not, which are left out"
    ]


def test_profiles_of_several_ranks_that_a_tool_merged(tmp_path: Path, runs: Path) -> None:
    """Its processes name the ranks; one of torch.profiler has a single process and names none."""
    events = [x("aten::mm", 10, 5, cat="cpu_op", pid=f"rank{r} 77") for r in (0, 1)]
    named = [name_of("process", 500, "[Rank 1] GPU 1"), x("gemm", 12, 9, cat="kernel", pid=500)]
    run = Imported(
        write(tmp_path / "a.json", [*events, *named, x("?", 1, 2, pid=9)], schemaVersion=1),
        into=runs,
    )
    assert run.info["source"] == "chrome_trace"
    assert run.rows("spans", "rank", "name", "kind") == [
        (0, "aten::mm", "host"),
        (1, "aten::mm", "host"),
        (1, "gemm", "kernel"),
    ]
    (problem,) = run.problems
    assert "its processes name their ranks, but 1 do not" in problem


def test_several_files_and_tracks_with_one_name(tmp_path: Path, runs: Path) -> None:
    same = [name_of("process", pid, "P") for pid in (1, 2)]
    same += [name_of("thread", pid, "T", tid=2) for pid in (1, 2)]
    write(tmp_path / "in" / "a.json", [*same, x("one", 0, 10), x("two", 5, 10, pid=2)])
    write(tmp_path / "in" / "rank0.json", [x("three", 1700000000000000, 1)])
    run = Imported(tmp_path / "in", into=runs)
    assert run.rows("spans", "rank", "name", "track", "depth") == [
        (0, "three", "thread 2", 0),
        (1, "one", "P / T", 0),
        (1, "two", "P / T", 1),  # two threads that look like one are stacked, not drawn over
    ]
    assert any("a.json names no rank: shown as rank 1" in guess for guess in run.guesses)
    assert run.info["clock"] == "unknown"


@pytest.mark.parametrize("end", ["", ",", ",\n  ", "]", ',{"ph": "X", "na'])
def test_lists_never_closed(tmp_path: Path, runs: Path, end: str) -> None:
    text = json.dumps(
        [x("a", 1, 2), {"ph": "B", "name": "b", "ts": 2, "pid": 1, "tid": 2}, x("c", 5, 4)]
    )
    path = tmp_path / "a.json"
    path.write_text(text[:-1] + end)
    run = Imported(path, into=runs)
    assert run.rows("spans", "name", "dur_ns") == [("a", 2000), ("b", 0), ("c", 4000)]
    assert any("cut off at byte" in problem for problem in run.problems) == (end != "]")
    assert any("1 spans never end; shown up to" in problem for problem in run.problems)


def test_damaged_events_cost_only_themselves(tmp_path: Path, runs: Path) -> None:
    path = write(tmp_path / "a.json", [x("good", 1, 2), x("also", 5, 1)])
    strange = [
        '{"ph": "X", "name": "no time", "ts": Infinity, "dur": 1}',
        '{"ph": "X", "name": "text", "ts": "3", "dur": "2", "pid": {}, "tid": [1]}',
        '{"ph": "X", "name": "negative", "ts": 4, "dur": -7, "pid": 1, "tid": 2}',
        '{"ph": "E", "name": "alone", "ts": 5, "pid": 1, "tid": 2}',
        '{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": [1]}}',
        '{"ph": "X", "name": "far", "ts": 9e300, "dur": 1, "args": ' + "[" * 10**5 + "}",
        "[1]",
        '{"ph": 5}',
    ]
    path.write_text(path.read_text()[:-1] + "," + ",".join(strange) + "]")
    run = Imported(path, into=runs)
    assert run.rows("spans", "name", "dur_ns") == [
        ("good", 2000),
        ("text", 2000),
        ("negative", 0),
        ("also", 1000),
    ]
    problems = "\n".join(run.problems)
    assert "without a readable time left out" in problems
    assert "1 ends without a begin left out" in problems


@pytest.mark.parametrize("name", ["b.json", "0.json"])
def test_among_files_of_another_format_it_is_left_out(
    tmp_path: Path, runs: Path, name: str
) -> None:
    kineto = {"schemaVersion": 1, "baseTimeNanoseconds": T0}
    write(tmp_path / "in" / "a.json", [x("op", 1, 2, cat="cpu_op")], **kineto)
    write(tmp_path / "in" / name, [x("other", 1, 2)])
    run = Imported(tmp_path / "in", into=runs)
    assert run.info["source"] == "kineto"
    assert f"{name} is a chrome_trace file among" in run.problems[0]


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_real_trace_that_was_never_closed(runs: Path) -> None:
    run = Imported(TRACES / "chrome" / "byteps_truncated.json", into=runs)
    assert run.info["events_per_rank"] == {"unknown": 2302}
    assert run.table("spans").num_rows == 986
    (problem,) = run.problems
    assert "cut off at byte 165,046" in problem
    assert ("conv1_1_weight", "INITCOMMUNICATION", 4_965_000) in run.rows(
        "spans", "track", "name", "dur_ns"
    )


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_profiler_trace_read_as_any_other_gives_the_same_times(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two readers, one file: what both know must agree."""
    source = TRACES / "kineto/hta/nccl_parser_config__nccl_data.json.gz"
    profiler = Imported(source, into=runs)
    monkeypatch.setattr("ingest.readers.kineto.recognises", lambda source: False)
    chrome = Imported.of(import_paths([source], runs / "again"))
    assert (profiler.info["source"], chrome.info["source"]) == ("kineto", "chrome_trace")
    times = [sorted(run.rows("spans", "name", "ts_ns", "dur_ns")) for run in (profiler, chrome)]
    base = 0 if times[0][0][1] == times[1][0][1] else times[0][0][1] - times[1][0][1]
    assert {(n, t - base, d) for n, t, d in times[0]} <= set(times[1])
    assert len(times[0]) > 20
