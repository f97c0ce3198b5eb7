"""Two simple rules on phase logs and on a run folder, and how another tool is plugged in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy.cases import NATIVE, Case
from benchmarks.accuracy.judge import Outcome, judge
from benchmarks.accuracy.rivals.asked import Rival, ranks_named
from benchmarks.accuracy.rivals.baselines import robust_z, stage_frontier
from benchmarks.accuracy.rivals.named import by_kind, by_world, check_answers, rivals_named
from benchmarks.accuracy.rivals.phases import phases_of, write_phase_sections
from benchmarks.accuracy.tables import healthy, mistakes
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


NO_FUNCTION = 1


@pytest.mark.parametrize(
    ("rival", "problem"),
    [
        ("no_such_module:f", "No module named 'no_such_module'; PYTHONPATH must have its folder"),
        (f"{__name__}:nothing", "has no attribute 'nothing'"),
        (f"{__name__}:NO_FUNCTION", "NO_FUNCTION is no function"),
    ],
)
def test_tools_that_cannot_be_asked_are_refused(rival: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"--rival {rival}: .*{problem}"):
        rivals_named([rival])


def raises(folder: Path) -> list[int]:
    raise RuntimeError("cannot judge this")


def exits(folder: Path) -> list[int]:
    raise SystemExit(2)


@pytest.mark.parametrize(
    ("rival", "named", "error"),
    [
        (lambda _: np.array([5, 3, 3]), [3, 5], ""),
        (lambda _: (rank for rank in (1,)), [1], ""),
        (raises, [], "RuntimeError: cannot judge this"),
        (exits, [], "SystemExit: 2"),
        (lambda _: None, [], "TypeError: 'NoneType' object is not iterable"),
        (lambda _: "12", [], "['1', '2']: ranks are whole numbers"),
        (lambda _: [3.7], [], "[3.7]: ranks are whole numbers"),
        (lambda _: [8], [], "[8]: the job has ranks 0 to 7"),
        (lambda _: [-1, 2], [], "[-1, 2]: the job has ranks 0 to 7"),
    ],
)
def test_answers_are_checked(rival: Rival, named: list[int], error: str) -> None:
    assert ranks_named(rival, Path(), 8) == (named, error)


def test_a_tool_that_fails_loses_its_own_answer_and_no_other() -> None:
    case = Case("phase_log", "late_in_data", "loud", 0, 7)
    outcome = judge(case, {"fails": raises, "exits": exits, "nobody": nobody})
    assert outcome.error == ""
    assert outcome.named == {"fails": [], "exits": [], "nobody": []}
    assert set(outcome.rival_errors) == {"fails", "exits"}
    rows = {row.split(" | ")[1]: row.strip("| ").split(" | ") for row in by_world([outcome])[2:]}
    assert [rows[name][-1] for name in ("fails", "exits", "nobody")] == ["1", "1", "0"]
    assert rows["fails"][2].startswith("0 of 1")
    told = [line for line in mistakes([outcome]) if line.startswith("RIVAL")]
    assert told[0].endswith("fails: RuntimeError: cannot judge this")


def test_no_tool_can_read_what_was_planted() -> None:
    seen: list[str] = []

    def reads(folder: Path) -> list[int]:
        seen.extend(path.read_text() for path in folder.rglob("*.json"))
        return []

    judge(Case(NATIVE, "slow_worker", "loud", 0, 11), {"reads": reads})
    assert len(seen) > 1
    assert not [text for text in seen if "slow_worker" in text or '"truth"' in text]


def test_resumed_jobs_need_the_answers_of_each_tool() -> None:
    case = Case("phase_log", "late_in_data", "loud", 0, 1)
    jobs = [Outcome(case, named={"a": []}), Outcome(replace(case, number=1), named={"a": [1]})]
    check_answers(jobs, ["a"])
    with pytest.raises(ValueError, match="2 of its 2 jobs were judged without b; give a new file"):
        check_answers(jobs, ["a", "b"])


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


def test_tools_are_counted_per_kind_over_all_worlds() -> None:
    jobs = [
        Outcome(Case(world, kind, "loud", 0, 1), labels=(planted(3),), named={"a": [3]})
        for world in ("phase_log", "host_bound")
        for kind in ("late_in_data", "late_in_compute")
    ]
    jobs[0].named["a"] = []
    rows = [row.strip("| ").split(" | ") for row in by_kind(jobs)[2:]]
    exactly = {(row[0], row[1]): row[2] for row in rows}
    assert exactly["late_in_compute", "a"] == "2 of 2 (34-100 %)"
    assert exactly["late_in_data", "a"] == "1 of 2 (9-91 %)"


def test_findings_in_healthy_jobs_are_not_all_false() -> None:
    true = {"kind": "step_regression", "ranks": [], "steps": [5, 60], "steps_are_longer": True}
    job = Outcome(Case("phase_log", "healthy", "any", 0, 1), findings=[true])
    assert "1 findings, true or not" in healthy([job])[0]
