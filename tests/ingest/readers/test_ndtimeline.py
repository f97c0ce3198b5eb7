"""NDTimeline of veScale: files as its LocalTimelineNDHandler writes them, of generated jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from app.analysis.diagnosis import diagnose_run
from app.views.whatif.analysis import whatif_of
from ingest.run import open_run
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace
from tests.app.views.whatif.test_analysis import written
from tests.reader_results import Imported

T_S = 1_710_332_800
STEP_S = 10
TRACK_OF = {"send": 1, "recv": 2, "gather": 5, "scatter": 5}


def event(
    name: str, rank: int, step: int, coords: tuple[int, int, int], ts_s: float, dur_s: float
) -> dict[str, Any]:
    """A complete event; `coords`: indices on dp, pp and tp."""
    dp, pp, tp = coords
    track = TRACK_OF.get(name.rpartition("-")[2], 0)
    return {
        "name": name,
        "cat": name,
        "pid": dp,
        "tid": rank * 10 + track,
        "args": {"rank": rank, "step": step, "tp": tp, "pp": pp},
        "ts": ts_s * 1e6,
        "dur": dur_s * 1e6,
        "ph": "X",
    }


def events_of(job: MegatronJob, tp: int = 1) -> list[dict[str, Any]]:
    """The operations of a generated job, each of them on `tp` ranks next to each other."""
    found = []
    for row in straggler_trace(job).to_pylist():
        at_s = T_S + row["step"] * STEP_S + row["start_ts"]
        for i in range(tp):
            rank, coords = row["rank"] * tp + i, (row["dp_rank"], row["stage"], i)
            found.append(event(row["optype"], rank, row["step"], coords, at_s, row["duration"]))
    return found


def write(folder: Path, events: Iterable[Any], name: str = "trace_step0_3") -> Path:
    """A file, with the names of processes and threads at its end."""
    names = [
        {"name": "process_name", "pid": 0, "ph": "M", "args": {"name": "dp rank[0]"}},
        {"name": "thread_name", "pid": 0, "tid": 0, "ph": "M", "args": {"name": "rank[0] main"}},
    ]
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps([*events, *names]))
    return folder


def test_operations_are_spans_with_their_steps(tmp_path: Path, runs: Path) -> None:
    events = [
        event("forward-compute", 0, 7, (0, 0, 0), T_S + 1.0, 0.5),
        event("forward-compute", 0, 7, (0, 0, 0), T_S + 2.0, 0.5),
        event("unshard-all-gather", 0, 7, (0, 0, 0), T_S + 0.5, 0.25),
        event("forward-send-backward-recv", 1, 7, (0, 1, 0), T_S + 3.0, 0.25),
    ]
    run = Imported(write(tmp_path / "in", events), into=runs)
    assert (run.info["source"], run.info["clock"], run.problems) == ("ndtimeline", "absolute", [])
    s = 10**9
    assert run.rows("spans", "rank", "step", "ts_ns", "dur_ns", "kind", "name", "microbatch") == [
        (0, 7, T_S * s + s // 2, s // 4, "dp_comm", "params-all-gather", -1),
        (0, 7, (T_S + 1) * s, s // 2, "forward", "forward-compute", 0),
        (0, 7, (T_S + 2) * s, s // 2, "forward", "forward-compute", 1),
        (1, 7, (T_S + 3) * s, s // 4, "pp_comm", "forward-send", -1),
        (1, 7, (T_S + 3) * s, s // 4, "pp_comm", "backward-recv", -1),
    ]
    assert run.rows("steps", "rank", "start_ns", "dur_ns") == [
        (0, T_S * s + s // 2, 2 * s),
        (1, (T_S + 3) * s, s // 4),
    ]
    assert run.ranks[1]["layout"]["axes"] == {"pp": 2, "dp": 1, "tp": 1}
    assert run.ranks[1]["coords"] == {"pp": 1, "dp": 0, "tp": 0}
    assert any("1 operations that send and receive at once" in guess for guess in run.guesses)


@pytest.mark.parametrize("order", [("pp", "dp", "tp"), ("dp", "pp", "tp"), ("tp", "pp", "dp")])
def test_the_layout_is_the_order_in_which_the_coordinates_fit(
    tmp_path: Path, runs: Path, order: tuple[str, ...]
) -> None:
    events = []
    for rank in range(8):
        at = dict(zip(order, (rank // 4, rank // 2 % 2, rank % 2), strict=True))
        coords = (at["dp"], at["pp"], at["tp"])
        events.append(event("forward-compute", rank, 0, coords, T_S, 1))
    run = Imported(write(tmp_path / "in", events), into=runs)
    assert list(run.ranks[0]["layout"]["axes"]) == list(order)
    assert any("one chunk per stage is assumed" in guess for guess in run.guesses)


def test_what_if_gives_the_same_as_on_the_trace_it_was_made_of(tmp_path: Path, runs: Path) -> None:
    job = MegatronJob(pp=4, dp=2, num_steps=4, slow=((2, 1, 1.5),))
    events = events_of(job, tp=2)
    hosts = [[e for e in events if e["args"]["rank"] // 8 == host] for host in (0, 1)]
    for host, own in enumerate(hosts):
        write(tmp_path / "in", own, f"trace_host{host}_step0_3")
    answers = []
    for folder in (tmp_path / "in", written(job, tmp_path / "original")):
        with open_run(Imported(folder, into=runs).folder) as run:
            answers.append(whatif_of(run).metrics)
    of_ndtimeline, of_original = answers
    assert of_ndtimeline.S == pytest.approx(of_original.S, rel=1e-4)  # noqa: SIM300
    assert of_ndtimeline.S > 1.1


def test_a_slow_rank_is_found(tmp_path: Path, runs: Path) -> None:
    job = MegatronJob(pp=4, dp=4, num_steps=8, slow=((2, 1, 1.5),))
    with open_run(Imported(write(tmp_path / "in", events_of(job)), into=runs).folder) as run:
        found = diagnose_run(run).findings
    assert [(f.kind, [place.rank for place in f.culprits]) for f in found] == [("slow_worker", [9])]


def test_a_step_that_is_there_twice_is_left_out(tmp_path: Path, runs: Path) -> None:
    events = events_of(MegatronJob(pp=1, dp=2, num_steps=2))
    write(tmp_path / "in", events, "trace_step0_1")
    run = Imported(write(tmp_path / "in", events, "trace_step0_2"), into=runs)
    assert len(run.rows("steps", "step")) == 4
    assert "step 0 of rank 0 is in an earlier file, too; left out" in run.problems[0]


def test_events_that_no_job_has_are_counted(tmp_path: Path, runs: Path) -> None:
    good = event("forward-compute", 0, 0, (0, 0, 0), T_S, 1)
    bad = [
        good | {"args": {"rank": -1, "step": 0, "tp": 0, "pp": 0}},
        good | {"args": {"rank": 0, "step": 0, "tp": 0, "pp": 1}},
        good | {"args": {"rank": 0, "step": 2**60, "tp": 0, "pp": 0}},
        good | {"args": {"rank": 0, "step": -1, "tp": 0, "pp": 0}},
        good | {"args": []},
        good | {"pid": "x"},
        good | {"ts": None},
    ]
    run = Imported(write(tmp_path / "in", [good, *bad]), into=runs)
    assert run.table("spans").num_rows == 1
    assert "7 events without a time, a rank or a step were left out" in run.problems[0]


def test_files_of_some_hosts_leave_the_layout_unknown(tmp_path: Path, runs: Path) -> None:
    events = [event("forward-compute", rank, 0, (0, 0, rank), T_S, 1) for rank in (2, 3)]
    run = Imported(write(tmp_path / "in", events), into=runs)
    assert run.ranks[2]["layout"] is None
    assert any("do not fill a complete grid" in guess for guess in run.guesses)
