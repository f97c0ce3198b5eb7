"""The benchmark of faulty machines: what an alarm is worth, rivals, and the tables."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.machine_report import table_of
from benchmarks.machine_rivals import named, prepared, windows
from benchmarks.machine_rivals.simple import mahalanobis, median_mad, three_sigma
from benchmarks.machines import OURS, _ours, outcome
from sample_traces.generate.machines.job import Fault, MachineJob, draw_job


def job(fault: Fault | None = None) -> MachineJob:
    return MachineJob(("a",), np.zeros((1, 1_800, 8), np.float32), np.zeros(8, int), fault, ())


FAULT = Fault("ecc", "loud", 3, 400.0)


@pytest.mark.parametrize(
    ("alarms", "found", "wrong"),
    [
        ([(3, 450.0)], True, 0),
        ([(2, 450.0)], False, 1),
        ([(2, 450.0), (3, 500.0)], True, 1),
        ([(3, 390.0)], False, 1),
        ([(3, 1_400.0)], False, 0),
        ([], False, 0),
    ],
)
def test_what_an_alarm_is_worth(alarms: list, found: bool, wrong: int) -> None:
    result = outcome(OURS, job(FAULT), 1, alarms)
    assert (result.found, result.num_false) == (found, wrong)
    assert result.hours == 4.0


def test_a_healthy_job_counts_false_machines_once_each() -> None:
    result = outcome(OURS, job(), 1, [(2, 9.0), (2, 90.0), (5, 9.0)])
    assert (result.kind, result.num_false) == ("", 2)


def test_three_sigma_reaches_no_more_than_its_bound() -> None:
    values = np.random.default_rng(0).random((1, 100, 10)).astype(np.float32)
    values[0, 50:, 4] += 1e6
    _, score_W = three_sigma(windows(prepared(values)))
    assert score_W.max() <= (10 - 1) / np.sqrt(10) * 1.06  # numpy's deviation divides by N


@pytest.mark.parametrize("ranked", [median_mad, mahalanobis])
def test_rivals_find_a_loud_machine(ranked) -> None:
    values = np.random.default_rng(0).random((3, 400, 16)).astype(np.float32)
    values[1, 200:, 4] += 3.0
    values[0, 7, 2] = np.nan
    top_W, score_W = ranked(windows(prepared(values)))
    alarms = named(top_W, score_W, threshold=float(np.median(score_W)))
    assert alarms[0][0] == 4
    assert 200 + 60 <= alarms[0][1] <= 200 + 80


def test_the_detector_finds_a_generated_fault() -> None:
    made = draw_job(5, 900, "thermal", "loud", num_machines=8)
    assert made.fault is not None
    assert _ours(made)[0][0] == made.fault.machine


def test_the_tables() -> None:
    results = [outcome(OURS, job(FAULT), 1, [(3, 450.0)]), outcome(OURS, job(), 2, [])]
    text = table_of(results, {"seed": 1, "cpu_min": 0.1})
    assert "| rankscope | 1.000" in text
    assert "| ecc | 1 |" in text
    assert "0.00 (0.00-461.12)" in text  # 3.689 expected of 8 machine-hours
