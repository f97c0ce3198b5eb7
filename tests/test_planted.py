"""Scores of planted faults: what counts as found, as something else, and as a false alarm."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.planted import (
    DOSES,
    FAULTS,
    GAIN,
    LEAST_ON,
    MOST_CORRECTED,
    OFF_STEPS,
    Episode,
    Job,
    gain_of,
    planned,
    row_of,
    score,
    wilson,
)
from sample_traces.jobs.faults import Fault

STEPS = {step: 1500.0 if 20 <= step <= 29 else 1000.0 for step in range(2, 60)}
MARKS = {20: 10**9}


def finding(kind: str, rank: int, first: int, last: int = 99) -> dict[str, object]:
    return {"kind": kind, "ranks": (rank,), "steps": (first, last), "stages": ()}


def scored(*reports: tuple[float, dict[str, object]]) -> tuple[Job, Episode]:
    episode = Episode("late-rank", "loud", 5, 20, 29)
    job = Job([episode], reported=[(int((1 + s) * 1e9), [report]) for s, report in reports])
    score(job, STEPS, MARKS)
    return job, episode


def test_the_first_right_alert_counts_from_the_mark() -> None:
    job, episode = scored(
        (3, finding("host_contention", 5, 20)),
        (7, finding("launch_skew", 5, 21)),
        (9, finding("launch_skew", 5, 20)),
    )
    assert (episode.delay_s, episode.onset) == (7.0, 21)
    assert episode.delay_steps == pytest.approx(7.0 / 1.5)
    assert episode.also == {"host_contention [5]"}
    assert (episode.step_ratio, job.step_ms, job.false) == (1.5, 1000.0, [])
    row = row_of("late-rank", "loud", [episode])
    assert (row["right"], row["in_15_s"], row["delay_p95_s"], row["onset_steps"]) == (1, 1, 7.0, 1)


@pytest.mark.parametrize(
    "report", [finding("launch_skew", 4, 20), finding("slow_worker", 5, 20)], ids=["rank", "kind"]
)
def test_another_rank_or_kind_is_not_right(report: dict[str, object]) -> None:
    _, episode = scored((3, report))
    assert episode.delay_s is None
    assert len(episode.also) == 1
    assert row_of("late-rank", "loud", [episode])["delay_p50_s"] is None


@pytest.mark.parametrize(("first", "last"), [(4, 9), (40, 50)])
def test_a_finding_about_other_steps_is_a_false_alarm(first: int, last: int) -> None:
    job, episode = scored((3, finding("launch_skew", 5, first, last)))
    assert (episode.delay_s, episode.also) == (None, set())
    assert job.false == [f"launch_skew [5] from step {first}"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_is_what_the_job_takes(fault: str) -> None:
    episodes = planned(fault, list(DOSES), step_ms=2000.0, gain=1.5, seed=3)
    for before, after in pairwise(episodes):
        assert after.first - before.last > OFF_STEPS
    for episode in episodes:
        parsed = Fault.parse(episode.text)
        assert (parsed.rank, parsed.first_step, parsed.last_step) == (
            episode.rank,
            episode.first,
            episode.last,
        )
        assert episode.last - episode.first + 1 >= LEAST_ON


def test_a_fault_that_cost_too_little_is_planned_stronger() -> None:
    assert gain_of("late-rank", []) == GAIN["late-rank"]
    _, episode = scored()
    episode.own = 1.0  # half a step longer for one step of its own
    assert gain_of("late-rank", [episode]) == pytest.approx(2.0)
    assert gain_of("gc", [episode]) == GAIN["gc"]
    episode.step_ratio = 0.9  # noise: it cannot have cost less than nothing
    assert gain_of("late-rank", [episode]) == GAIN["late-rank"] * MOST_CORRECTED


def test_the_interval_of_a_share() -> None:
    assert wilson(10, 10) == pytest.approx((0.722, 1.0), abs=0.001)
    assert wilson(5, 10)[0] + wilson(5, 10)[1] == pytest.approx(1.0)
