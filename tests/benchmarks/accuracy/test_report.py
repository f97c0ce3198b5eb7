"""Tables per world, calibration with its plot, and outcomes that outlive a run."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.accuracy import calibration, worlds_report
from benchmarks.accuracy.cases import ANY_DOSE, HEALTHY, WORLDS, Case, cases, kinds_of
from benchmarks.accuracy.judge import Outcome, judge
from benchmarks.accuracy.outcomes import append, outcomes_in
from benchmarks.accuracy.report import report
from benchmarks.accuracy.rivals.baselines import BASELINES
from tests.benchmarks.accuracy.test_score import finding_of, planted

LOUD = Case("phase_log", "late_in_data", "loud", 0, 1)
RIGHT = Outcome(LOUD, labels=(planted(3),), findings=[finding_of("slow_worker", 3)])
WRONG = Outcome(
    replace(LOUD, number=1),
    labels=(planted(3),),
    findings=[finding_of("slow_worker", 4, confidence="low")],
)
CALM = Outcome(
    Case("phase_log", HEALTHY, ANY_DOSE, 0, 1),
    findings=[finding_of("data_loader", 2), finding_of("step_regression", steps_are_longer=True)],
    rank_steps=1_000_000,
)


def cells_of(lines: list[str], world: str) -> list[str]:
    (row,) = [line for line in lines if line.startswith(f"| {world} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_row_per_world() -> None:
    cells = cells_of(worlds_report.found_by_world([RIGHT, WRONG, CALM]), "phase_log")
    assert cells[:5] == ["phase_log", "2", "2", "1.000 (0.51-1.00)", "-"]
    assert cells[5] == "0.500 (0.09-0.91)"


def test_false_names_on_healthy_jobs_have_exact_intervals() -> None:
    cells = cells_of(worlds_report.healthy_by_world([RIGHT, CALM]), "phase_log")
    assert cells == [
        "phase_log",
        "1",
        "1,000,000",
        "1",
        "1.00 (0.03-5.57)",
        "1 (2.5-100.0 %)",
        "0",
        "0",
        "1",
        "0",
    ]


def test_calibration_counts_right_findings_by_confidence() -> None:
    found = calibration.calibrations([RIGHT, WRONG, CALM])
    one = found["phase_log"]
    assert (one.right, one.judged) == (
        {"high": 2, "medium": 0, "low": 0},
        {"high": 3, "medium": 0, "low": 1},
    )
    assert (one.loud_high, one.loud) == (1, 2)
    assert found[calibration.ALL] == one


def test_the_plot_has_a_mark_for_each_share() -> None:
    drawn = calibration.plot(calibration.calibrations([RIGHT, WRONG, CALM]))
    tree = ET.fromstring(drawn)
    circles = tree.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 4  # high and low, of the world and of all
    texts = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "2 of 3" in texts


def test_outcomes_outlive_a_run_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.jsonl"
    assert list(outcomes_in(path)) == []
    for outcome in (RIGHT, CALM):
        append(outcome, path)
    with path.open("a") as file:
        file.write('{"case": {"world')
    assert list(outcomes_in(path)) == [RIGHT, CALM]


@pytest.mark.long
def test_a_job_with_phase_logs_from_draw_to_report() -> None:
    case = Case("phase_log", "late_in_compute", "loud", 2, 3)
    outcome = judge(case, BASELINES)
    assert outcome.error == ""
    assert outcome.labels[0].planted == "late_in_compute"
    assert outcome.rank_steps == outcome.labels[0].job_ranks * case.drawn().job.num_steps
    assert set(outcome.named) == set(BASELINES)
    text = "\n".join(report([outcome], 0, "img/calibration.svg"))
    assert re.search(r"^## World phase_log, loud and quiet$", text, re.M)
    assert "| phase_log | robust z |" in text


def test_every_world_has_cases_and_recorded_ones_need_recordings() -> None:
    chosen = cases(1, 1, 4, [], WORLDS)
    worlds = {case.world for case in chosen}
    assert worlds == {world for world in WORLDS if not world.startswith("resampled")}
    assert "slow_node_link" not in kinds_of("async_native")
    assert "clock_unaligned" not in kinds_of("host_bound_native")
