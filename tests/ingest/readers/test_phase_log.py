"""Phase logs: hand-built lines for every trap, and the logs of real jobs with a known victim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run
from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.line_files import write_lines
from tests.reader_results import Imported

T0_S = 1784913417
Json = dict[str, Any]


def line(step: int, rank: int | None = 0, **more: Any) -> Json:
    found = {
        "step": step,
        "data_ms": 1.5,
        "compute_ms": 50,
        "comm_ms": 2,
        "wait_ms": 0.25,
        "step_ms": 60,
        "loss": 2.5,
        "ts": T0_S + step * 0.0625,
        "rank": rank,
        "node_rank": 1,
        "world_size": 2,
        **more,
    }
    return {key: value for key, value in found.items() if value is not None}


def test_phases_are_laid_end_to_end_inside_their_step(tmp_path: Path, runs: Path) -> None:
    run = Imported(write_lines(tmp_path / "in", "x.jsonl", line(0), line(1)), into=runs)
    start = T0_S * 10**9 - 60_000_000
    assert run.rows("steps", "step", "start_ns", "dur_ns", "loss") == [
        (0, start, 60_000_000, 2.5),
        (1, start + 62_500_000, 60_000_000, 2.5),
    ]
    spans = run.rows("spans", "step", "ts_ns", "dur_ns", "kind", "name", "depth")
    assert spans[:5] == [
        (0, start, 1_500_000, "data_wait", "data", 0),
        (0, start + 1_500_000, 50_000_000, "forward", "compute", 0),
        (0, start + 51_500_000, 2_000_000, "other_comm", "communication", 0),
        (0, start + 53_500_000, 250_000, "host", "wait", 0),
        (1, start + 62_500_000, 1_500_000, "data_wait", "data", 0),
    ]
    assert run.ranks[0]["world_size"] == 2
    assert run.ranks[0]["host"] == "node 1"
    assert any("not when: they are laid end to end" in guess for guess in run.guesses)
    assert any("ts is taken as the time at which its step ended" in guess for guess in run.guesses)


def test_bad_lines_cost_only_themselves(tmp_path: Path, runs: Path) -> None:
    bad = [
        "not json",
        "[1]",
        '{"step": 5}',
        json.dumps(line(-1)),
        json.dumps(line(3, rank=10**12)),
        '{"step": 9, "data_ms": 1, ' + "[" * 10**5,
    ]
    good = '{"step": 2, "rank": 0, "ts": 1784913418.5, "data_ms": NaN, "compute_ms": "7", '
    good += '"step_ms": 8, "loss": Infinity, "lr": 1e-4}'
    path = write_lines(tmp_path / "in", "x.jsonl", line(0), *bad, good, line(0), "")
    path.write_bytes(path.read_bytes() + b'{"step": 7, "data_ms": 1, "st')
    run = Imported(path, into=runs)
    assert run.rows("steps", "step", "dur_ns", "loss", "lr") == [
        (0, 60_000_000, 2.5, None),
        (2, 8_000_000, None, 1e-4),
    ]
    assert {step for (step,) in run.rows("spans", "step")} == {0}
    problems = "\n".join(run.problems)
    assert "7 bad lines left out (line 2, 3, 4, ...)" in problems
    assert "1 lines left out whose step had a line already" in problems


def test_a_log_without_times_is_relative_to_each_step(tmp_path: Path, runs: Path) -> None:
    run = Imported(write_lines(tmp_path / "in", "x.jsonl", line(0, ts=None), line(1)), into=runs)
    assert run.info["clock"] == "per_step_relative"
    assert run.rows("steps", "step", "start_ns") == [(0, 0), (1, 0)]


def test_ranks(tmp_path: Path, runs: Path) -> None:
    write_lines(tmp_path / "in", "a.jsonl", line(0, rank=3))
    write_lines(tmp_path / "in", "rank_0002.jsonl", line(0, rank=None))
    write_lines(tmp_path / "in", "nobody.jsonl", line(0, rank=None))
    write_lines(tmp_path / "in", "again.jsonl", line(0, rank=3))
    write_lines(tmp_path / "in", "two.jsonl", line(0, rank=7), line(1, rank=8))
    run = Imported(tmp_path / "in", into=runs)
    assert set(run.ranks) == {0, 2, 3}
    problems = "\n".join(run.problems)
    assert "says it is rank 3, as" in problems
    assert "its lines belong to several ranks (7 and 8)" in problems
    assert any("nobody.jsonl names no rank: shown as rank 0" in guess for guess in run.guesses)
    assert any("rank 2 is taken from the name of the file" in guess for guess in run.guesses)
    assert not any("rank 3 is taken" in guess for guess in run.guesses)


def test_a_date_in_a_name_is_no_rank_and_costs_no_other_log(tmp_path: Path, runs: Path) -> None:
    write_lines(tmp_path / "in", "phases_20261128.jsonl", line(0, rank=None))
    write_lines(tmp_path / "in", "a.jsonl", line(0, rank=3))
    run = Imported(tmp_path / "in", into=runs)
    assert set(run.ranks) == {0, 3}
    assert run.problems == []


def test_a_line_longer_than_allowed_ends_the_file(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest.limits import Limits
    from ingest.readers.parsing import json_lines

    monkeypatch.setattr(json_lines, "limits", lambda: Limits(max_value_mib=1))
    path = write_lines(tmp_path / "in", "x.jsonl", line(0), "x" * (3 << 20), line(1))
    run = Imported(path, into=runs)
    assert run.rows("steps", "step") == [(0,)]
    assert "line 2 is longer than RANKSCOPE_MAX_VALUE_MIB=1; nothing after it" in run.problems[0]


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
@pytest.mark.parametrize(
    ("name", "phase", "change_ms"),
    [("p1-ext-a-loud", "compute", -222), ("p3-sw-a-loud", "data", 385)],
)
def test_a_real_victim(name: str, phase: str, change_ms: int, runs: Path) -> None:
    """The entry about rank 7 in the table of the traces, computed from the tables."""
    folder = TRACES / "fault_injection" / name / "injected"
    imported = Imported(folder, into=runs)
    assert set(imported.ranks) == set(range(16))
    assert {info["world_size"] for info in imported.ranks.values()} == {16}
    assert imported.problems == []
    assert set(imported.rows("log_lines", "rank", "label", "level")) == {(-1, "", "")}
    with open_run(imported.folder) as run:
        assert run.sql("SELECT count(DISTINCT step) AS n FROM steps").to_pylist() == [{"n": 500}]
        rows = run.sql(
            "SELECT rank, median(dur_ns) / 1e6 AS ms FROM spans"
            f" WHERE name = '{phase}' AND step BETWEEN 110 AND 290 GROUP BY rank"
        ).to_pylist()
    ms = {row["rank"]: row["ms"] for row in rows}
    peers = sorted(value for rank, value in ms.items() if rank != 7)
    assert ms[7] - peers[len(peers) // 2] == pytest.approx(change_ms, abs=abs(change_ms) * 0.1)


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_two_real_runs_in_one_folder_are_kept_apart(runs: Path) -> None:
    run = Imported(TRACES / "fault_injection" / "p1-ext-a-loud", into=runs)
    assert set(run.ranks) == set(range(16))
    again = [problem for problem in run.problems if "another run? import its folder" in problem]
    assert len(again) == 16
