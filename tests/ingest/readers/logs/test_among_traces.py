"""Logs among the files of a trace: one run of both, whose ranks and findings are the trace's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.analysis.diagnosis import diagnose_run
from ingest.run import open_run
from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.flight_recorder.dumps import dump, entry, write
from tests.ingest.readers.line_files import write_lines
from tests.ingest.readers.logs.log_files import TRACEBACK, column, lines_of, write_logs
from tests.reader_results import Imported

AT = "2026-04-13 16:51:20"
TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}
    ],
    "baseTimeNanoseconds": 1719853884000000000,
}


def test_dumps_and_logs_are_one_run(folder: Path, runs: Path) -> None:
    """The world of the dumps has 4 ranks, two of which left a dump; logs add hosts, no ranks."""
    for rank in (2, 3):
        write(folder, rank, dump(entry(0)))
    logs = {
        "node1/rank_2.log": f"{AT} a\n",
        "node0/rank_0.log": f"{AT} b\n",
        "node9/rank_71.log": f"{AT} c\n",
        "node0/torchrun.log": f"{AT} d\n[rank3]: {AT} e\n",
    }
    run = Imported(write_logs(folder, logs), into=runs)
    assert run.info["source"] == "flight_recorder"
    assert run.problems == []
    assert {rank: (i["world_size"], i["host"]) for rank, i in run.ranks.items()} == {
        2: (4, "node1"),
        3: (4, "node0"),
    }
    assert column(lines_of(run), "rank", "host", "text") == [
        (0, "node0", f"{AT} b"),
        (-1, "node0", f"{AT} d"),
        (3, "node0", f"{AT} e"),
        (2, "node1", f"{AT} a"),
        (-1, "node9", f"{AT} c"),
    ]
    (guess,) = [guess for guess in run.guesses if "which the trace does not have" in guess]
    assert "name rank 71, which" in guess
    assert run.table("collectives").num_rows == 2


def test_logs_that_name_no_rank_add_none_to_the_ranks_of_the_dumps(
    folder: Path, runs: Path
) -> None:
    for rank in (2, 3):
        write(folder, rank, dump(entry(0)))
    run = Imported(write_logs(folder, {"injection.log": f"{AT} a\n"}), into=runs)
    assert sorted(run.ranks) == [2, 3]
    (guess,) = [guess for guess in run.guesses if guess.startswith("no line of the logs")]
    assert "rank 0" not in guess


def test_a_profile_keeps_its_hosts_clock_and_start(folder: Path, runs: Path) -> None:
    """A profile of one rank of an unknown world: lines of others are kept without a rank."""
    folder.mkdir()
    info = {"rank": 1, "world_size": -1}
    (folder / "rank1.json").write_text(json.dumps({**TRACE, "distributedInfo": info}))
    logs = {f"rank_{rank}.log": f"{AT} {rank}\n" for rank in (0, 1)}
    run = Imported(write_logs(folder, logs), into=runs)
    assert (run.info["source"], list(run.ranks)) == ("kineto", [1])
    assert run.info["created_ns"] == TRACE["baseTimeNanoseconds"] + 1500
    assert column(lines_of(run), "rank", "text") == [(-1, f"{AT} 0"), (1, f"{AT} 1")]
    assert run.table("spans").num_rows == 1


def test_a_generic_trace_is_left_out_where_another_is_and_logs_are_not(
    folder: Path, runs: Path
) -> None:
    write(folder, 2, dump(entry(0)))
    (folder / "a.json").write_text('[{"ph": "X", "name": "y", "ts": 3, "dur": 4, "pid": 1}]')
    run = Imported(write_logs(folder, {"a.log": f"{AT} a\n"}), into=runs)
    (problem,) = run.problems
    assert "a.json is a chrome_trace file among flight_recorder files, left out" in problem
    assert run.rows("log_lines", "text") == [(f"{AT} a",)]


def test_a_log_that_cannot_be_read_costs_no_trace(
    folder: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("ingest.readers.logs.Import.finish", fail)
    write(folder, 2, dump(entry(0)))
    run = Imported(write_logs(folder, {"a.log": f"{AT} a\n"}), into=runs)
    assert run.table("collectives").num_rows == 1
    assert "the logs reader failed on it (KeyError: 'x')" in run.problems[0]


def test_phases_and_logs_have_findings_of_both(folder: Path, runs: Path) -> None:
    for rank in range(4):
        same = {"rank": rank, "world_size": 4, "step_ms": 100.0, "compute_ms": 90.0}
        lines = [{**same, "step": step, "ts": 1776099000 + step} for step in range(8)]
        write_lines(folder, f"rank_{rank}.jsonl", *lines)
    logs = {f"rank_{rank}.log": f"{AT} - INFO - step 1\n" for rank in range(4)}
    logs["rank_2.log"] += f"{TRACEBACK}\n"
    run = Imported(write_logs(folder, logs), into=runs)
    assert run.info["source"] == "phase_log"
    with open_run(run.folder) as opened:
        findings = diagnose_run(opened).findings
    (finding,) = [finding for finding in findings if finding.kind == "first_error"]
    assert [place.rank for place in finding.culprits] == [2]


def test_lines_have_the_steps_of_the_trace_by_their_times(folder: Path, runs: Path) -> None:
    """Of their rank; those of no rank by the lowest one. A step lasts until the next one begins."""
    begin_s = 1776099080.0  # 2026-04-13T16:51:20Z
    for rank, late_s in ((1, 0.0), (2, 0.5)):
        same = {"rank": rank, "world_size": 4, "step_ms": 400.0, "data_ms": 1.0}
        ends_s = [begin_s + late_s + n + 0.4 for n in range(3)]
        lines = [{**same, "step": 5 + n, "ts": end_s} for n, end_s in enumerate(ends_s)]
        write_lines(folder, f"rank_{rank}.jsonl", *lines)
    times = ("16:51:19.900", "16:51:20.100", "16:51:20.900", "16:51:21.300", "17:40:00.000")
    text = "".join(f"2026-04-13T{time}Z at {time}\n" for time in (*times, "18:55:00.000"))
    logs = {"rank_2.log": text, "all.log": f"no time\n{text}"}
    run = Imported(write_logs(folder, logs), into=runs)
    assert run.problems == []
    steps = sorted(run.rows("log_lines", "rank", "line", "step"))
    assert [step for rank, _, step in steps if rank == 2] == [-1, -1, 5, 5, 7, -1]
    assert [step for rank, _, step in steps if rank == -1] == [-1, -1, 5, 5, 6, 7, -1]
    with open_run(run.folder) as opened:
        rows = opened.ask("log_lines", step_min=6, step_max=6).to_pylist()
        assert [row["text"][-12:] for row in rows] == ["16:51:21.300"]


def _findings(folder: Path, runs: Path) -> list[tuple[object, ...]]:
    run = Imported(folder, into=runs)
    with open_run(run.folder) as opened:
        return [
            (f.kind, [place.rank for place in f.culprits], f.first_step, f.last_step, f.title)
            for f in diagnose_run(opened).findings
        ]


@pytest.mark.sampled
@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
@pytest.mark.parametrize(
    ("name", "log", "ranks"),
    [
        ("fault_injection/p1-ext-a-loud/injected", "injection.log", [7]),
        ("flight_recorder/gpu_error_1st", "fault_injection.log", [12, 14]),
        ("flight_recorder/lock_gil_1st", "fault_injection.log", [9, 14]),
    ],
)
def test_a_log_that_tells_of_an_injection_changes_no_finding(
    tmp_path: Path, runs: Path, name: str, log: str, ranks: list[int]
) -> None:
    """It says which ranks were harmed, and is no line with which a failure began."""
    shutil.copytree(TRACES / name, tmp_path / "without", ignore=shutil.ignore_patterns(log))
    found = _findings(TRACES / name, runs)
    assert found == _findings(tmp_path / "without", tmp_path / "others")
    assert found[0][1] == ranks
    assert "first_error" not in {kind for kind, *_ in found}
