"""Two simple rules on phase logs and on a run folder, and how another tool is plugged in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy.cases import NATIVE, Case
from benchmarks.accuracy.judge import Outcome
from benchmarks.accuracy.rivals.baselines import robust_z, stage_frontier
from benchmarks.accuracy.rivals.named import by_world, rivals_named
from benchmarks.accuracy.rivals.phases import phases_of, write_phase_sections
from sample_traces.generate.phase_log.simulate import simulate
from sample_traces.generate.phase_log.write import write_log
from tests.benchmarks.accuracy.test_score import planted
from tests.sample_traces.generate.phase_log.test_simulate import JOB, LATE

SLOW = replace(LATE, phase="compute")
SHOWN = replace(JOB, hides=(("comm", 1.0),))


def logs_of(job: object, folder: Path) -> Path:
    return write_log(job, simulate(job), folder / "logs")  # type: ignore[arg-type]


def test_both_name_a_slow_rank_where_waiting_is_shown(tmp_path: Path) -> None:
    folder = logs_of(replace(SHOWN, faults=(SLOW,)), tmp_path)
    assert robust_z(folder) == stage_frontier(folder) == [3]


def test_both_are_silent_about_a_healthy_job(tmp_path: Path) -> None:
    folder = logs_of(SHOWN, tmp_path)
    assert robust_z(folder) == stage_frontier(folder) == []


def test_hidden_waiting_deceives_them(tmp_path: Path) -> None:
    folder = logs_of(replace(JOB, faults=(SLOW,)), tmp_path)
    assert robust_z(folder) == []


def test_phases_of_a_run_folder(tmp_path: Path) -> None:
    drawn = Case(NATIVE, "slow_worker", "loud", 0, 11).drawn()
    run, _ = drawn.write(tmp_path)
    phases = phases_of(run)
    job = drawn.job
    assert phases.compute.shape == (job.num_steps, job.num_ranks)
    assert np.unique(phases.stage_R).tolist() == list(range(job.pp))
    (rank,) = drawn.labels[0].ranks
    assert phases.compute[drawn.labels[0].first_step].argmax() == rank


def test_sections_of_phase_logs_are_by_rank(tmp_path: Path) -> None:
    folder = logs_of(replace(SHOWN, faults=(SLOW,)), tmp_path)
    write_phase_sections(phases_of(folder), tmp_path / "sections.json")
    answer = json.loads((tmp_path / "sections.json").read_text())
    compute = answer["kernels"]["compute"]
    assert (len(compute), len(compute[0])) == (SHOWN.num_ranks, SHOWN.num_steps)
    assert max(range(8), key=lambda rank: compute[rank][40]) == 3
    assert set(answer["sections"]) == {"data_wait", "compute"}


def test_other_tools_are_functions() -> None:
    found = rivals_named([f"{__name__}:nobody"])
    assert found[f"{__name__}:nobody"](Path()) == []
    with pytest.raises(ValueError, match=r"write package\.module:function"):
        rivals_named(["package.module"])


def nobody(folder: Path) -> list[int]:
    return []


def test_counts_of_who_is_named() -> None:
    case = Case("phase_log", "late_in_data", "loud", 0, 1)
    named = {"exactly": [3], "more": [3, 4], "others": [4], "nobody": []}
    lines = by_world([Outcome(case, labels=(planted(3),), named=named)])
    rows = {row.split(" | ")[1]: row.strip("|").split(" | ") for row in lines[2:]}
    assert rows["exactly"][2].startswith("1 of 1")
    assert [rows[name][5:8] for name in ("more", "others", "nobody")] == [
        ["1", "0", "0"],
        ["0", "1", "0"],
        ["0", "0", "1"],
    ]
