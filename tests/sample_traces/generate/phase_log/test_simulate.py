"""Logs in which waiting hides: a late rank is the only one that does not wait."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sample_traces.generate.habits import Habits
from sample_traces.generate.phase_log.job import LogFault, LogJob
from sample_traces.generate.phase_log.own_times import excess, own_times
from sample_traces.generate.phase_log.simulate import simulate
from sample_traces.generate.phase_log.write import write_log

KEYS = frozenset({"data_ms", "compute_ms", "comm_ms", "wait_ms", "ts", "world_size"})
JOB = LogJob(
    8,
    60,
    step_ms=100.0,
    shares=(("data", 0.05), ("compute", 0.85), ("rest", 0.06)),
    hides=(("compute", 1.0),),
    keys=KEYS,
    habits=Habits(noise=0.01),
)
LATE = LogFault((3,), "rest", 50.0, 20, 59)
PHASES = ("data", "compute", "comm", "wait")


def test_equal_jobs_have_equal_logs_and_a_fault_changes_no_noise() -> None:
    first, second = simulate(JOB), simulate(JOB)
    assert np.array_equal(first.end_SR, second.end_SR)
    faulty = simulate(replace(JOB, faults=(LATE,)))
    assert np.array_equal(first.timers["data"], faulty.timers["data"])
    assert np.array_equal(first.step_SR[:20], faulty.step_SR[:20])


def test_all_ranks_leave_a_step_together() -> None:
    log = simulate(replace(JOB, faults=(LATE,)))
    assert np.ptp(log.end_SR, axis=1).max() < 1.0
    assert np.median(log.step_S[20:]) == pytest.approx(np.median(log.step_S[:20]) + 50, rel=0.05)


@pytest.mark.parametrize("timer", ["data", "compute", "comm"])
def test_the_late_rank_alone_does_not_wait(timer: str) -> None:
    log = simulate(replace(JOB, hides=((timer, 1.0),), faults=(LATE,)))
    waits_R = np.median(log.timers[timer][20:] - np.median(log.timers[timer][:20], axis=0), axis=0)
    assert waits_R.argmin() == 3
    assert abs(waits_R[3]) < 5
    assert (np.delete(waits_R, 3) > 40).all()
    other = {"data", "compute", "comm"} - {timer}
    for name in other:
        assert np.ptp(np.median(log.timers[name][20:], axis=0)) < 5


def test_waiting_in_no_timer_leaves_the_step_unexplained() -> None:
    log = simulate(replace(JOB, hides=(("rest", 1.0),), faults=(LATE,)))
    rest_SR = log.step_SR - sum(log.timers[name] for name in PHASES)
    assert np.median(rest_SR[20:]) > 40
    assert np.ptp(np.median(log.timers["compute"][20:], axis=0)) < 5


def test_an_excess_in_the_timer_that_hides_waiting_makes_all_ranks_alike() -> None:
    log = simulate(replace(JOB, faults=(replace(LATE, phase="compute"),)))
    compute_R = np.median(log.timers["compute"][20:], axis=0)
    assert np.ptp(compute_R) < 5
    assert compute_R.min() > 130


def test_an_asynchronous_launch_shows_waiting_one_step_later() -> None:
    single = replace(LATE, first_step=30, last_step=30)
    log = simulate(replace(JOB, hides=(("data", 1.0),), lags=True, faults=(single,)))
    waits_S = np.median(np.delete(log.timers["data"], 3, axis=1), axis=1)
    assert waits_S.argmax() == 31
    assert log.step_SR[30, 3] > 130 > log.step_SR[30, 0]


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [("steady", 40), ("growing", 40), ("periodic", 10), ("random", None)],
)
def test_patterns(pattern: str, hit: int | None) -> None:
    fault = replace(LATE, pattern=pattern, every=4, share=0.5)
    added_SR = excess(JOB, fault)
    hit_S = added_SR[:, 3] > 0
    assert np.array_equal(hit_S, fault.hits(60))
    assert not np.delete(added_SR, 3, axis=1).any()
    assert hit_S.sum() == hit if hit else 10 < hit_S.sum() < 30
    if pattern == "growing":
        assert added_SR[55:, 3].mean() > 2.5 * added_SR[20:25, 3].mean()


def test_habits_of_all_ranks_and_of_one() -> None:
    habits = Habits(every=20, unnamed=0.5, warm_up=2.0, settles=2.0, stalls=((30, 39, 5, 0.3),))
    own = own_times(replace(JOB, habits=habits))
    assert (own["rest"][[19, 39, 59]].mean(axis=1) > 50).all()
    assert own["compute"][0].mean() > 2.5 * own["compute"][20:].mean()
    stalled_S = np.flatnonzero(own["data"][:, 5] > 30)
    assert stalled_S.tolist() == [30, 32, 34, 36, 38]


def test_lines_have_what_the_job_logs(tmp_path: Path) -> None:
    job = replace(JOB, keys=KEYS - {"comm_ms"}, names_hosts="hostname", ranks_per_host=4)
    folder = write_log(job, simulate(job), tmp_path / "logs")
    lines = (folder / "rank_0006.jsonl").read_text().splitlines()
    line = json.loads(lines[7])
    assert len(lines) == 60
    assert (line["step"], line["rank"], line["hostname"]) == (7, 6, "gpu-001")
    assert "comm_ms" not in line
    assert line["step_ms"] == pytest.approx(100, rel=0.2)


def test_a_fault_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="no fault of phase 'network'"):
        replace(LATE, phase="network")
    with pytest.raises(ValueError, match="from step 20 to 10"):
        replace(LATE, last_step=10)
