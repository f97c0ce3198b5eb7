"""Events of torch.profiler files: kinds, tracks, depths, strange and absurd ones."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.readers.kineto.profiler_files import collective, event, step, write
from tests.reader_results import Imported


def test_kinds_tracks_and_depths(tmp_path: Path, runs: Path) -> None:
    events = [
        event("Optimizer.step#Adam.step", 0, 50, "user_annotation"),
        event("aten::add", 10, 5),
        event("enumerate(DataLoader)#_Iter.__next__", 60, 5, "user_annotation"),
        event("## backward ##", 70, 5, "user_annotation"),
        event("void gemm<float>(int)", 20, 10, "kernel"),
        event("void overlapping<float>(int)", 25, 10, "Kernel", tid="stream 7", pid=0),
        event("void overlapping<float>(int)", 25, 10, "kernel"),
        event("Memcpy HtoD", 80, 1, "gpu_memcpy", args={"bytes": 4096}),
    ]
    run = Imported(write(tmp_path / "a.json", events), into=runs)
    assert run.rows("spans", "kind", "track", "depth", "num_bytes") == [
        ("optimizer", "thread 42", 0, -1),
        ("host", "thread 42", 1, -1),
        ("kernel", "GPU 0 stream 7", 0, -1),
        ("kernel", "GPU 0 stream 7", 0, -1),  # its pid and tid are written in another way
        ("kernel", "GPU 0 stream 7", 1, -1),
        ("data_wait", "thread 42", 0, -1),
        ("backward", "thread 42", 0, -1),
        ("memcpy", "GPU 0 stream 7", 0, 4096),
    ]


def test_strange_events_cost_only_themselves(tmp_path: Path, runs: Path) -> None:
    path = write(tmp_path / "a.json", [event("good", 0, 1), event("also good", 5, 1)])
    strange = [
        '{"ph": "X", "cat": "cpu_op", "name": "no time", "ts": NaN, "dur": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": "text", "ts": "4212936054937.000", "dur": "2", '
        '"pid": "x", "tid": [1]}',
        '{"ph": "X", "name": "twice", "name": "line\nbreak", "ts": 4212936054938.5, "dur": 1, '
        '"pid": 42, "tid": 99999999999999999999999}',
        "null",
        '{"ph": "X", "name": broken}',
    ]
    text = path.read_text().replace(
        '"traceEvents": [', '"traceEvents": [' + ",".join(strange) + ","
    )
    path.write_text(text)
    run = Imported(path, into=runs)
    assert run.rows("spans", "name", "dur_ns") == [
        ("good", 1000),
        ("text", 2000),
        ("line\nbreak", 1000),
        ("also good", 1000),
    ]
    assert run.info["events_per_rank"] == {"0": 7}
    problems = " ".join(run.info["problems"])
    assert "2 damaged events left out" in problems
    assert "1 events without a readable time left out" in problems


def test_absurd_values_are_damage_not_a_crash(tmp_path: Path, runs: Path) -> None:
    huge = 10**30
    args = {
        **collective("send"),
        "Dst Rank": huge,
        "Seq": huge,
        "In msg nelems": huge,
        "Process Group Ranks": "[0, 1, ",
        "Group size": huge,
        "Global rank start": 0,
        "Global rank stride": 1,
    }
    events = [
        event("good", 0, 1),
        {**event("far", 0, 1), "ts": 9 * 10**15},
        event("ncclDevKernel_SendRecv", 1, 1, "kernel", args=args),
        event("Memcpy", 3, 1, "gpu_memcpy", args={"bytes": huge}),
        step(10**25, 0, 5),
    ]
    path = write(
        tmp_path / "rank-1.json",
        events,
        None,
        distributedInfo={"rank": huge, "world_size": huge, "pg_config": [{"ranks": "[" * 10**5}]},
    )
    deep = '{"ph": "X", "name": "deep", "args": ' + "[" * 10**5 + "]" * 10**5 + "}"
    path.write_text(path.read_text().replace('"traceEvents": [', f'"traceEvents": [{deep},'))
    run = Imported(path, into=runs)
    assert [name for (name,) in run.rows("spans", "name")][:2] == [
        "good",
        "ProfilerStep#1" + "0" * 25,
    ]
    assert run.rows("collectives", "peer", "num_bytes") == [(-1, -1)]
    assert run.ranks[1]["world_size"] == -1
    assert set(run.rows("spans", "num_bytes")) == {(-1,)}
