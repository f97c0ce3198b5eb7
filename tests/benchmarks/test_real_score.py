"""Scores of faults in real jobs: what is right, a wrong name, job-level, and a false alarm."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.real.plan import Episode
from benchmarks.real.score import Job, is_true, names, parts_of, score, text_of
from diagnosis.findings import Diagnosis, Verdict
from tests.diagnosis.test_findings import a_finding

STEPS = {step: 1500.0 if 20 <= step <= 29 else 1000.0 for step in range(2, 60)}
MARKS = {20: 10**9}


def part(kind: str, ranks: tuple[int, ...] = (), first: int = 20, last: int = 29) -> dict[str, Any]:
    steps = [first, last]
    whom = {"ranks": list(ranks), "stages": [], "hosts": []}
    return {"kind": kind, **whom, "steps": steps, "confidence": "high"}


def scored(
    *reports: tuple[float, list[dict[str, Any]]],
    fault: str = "late-step",
    ranks: tuple[int, ...] = (5,),
) -> tuple[Job, Episode]:
    episode = Episode(fault, "loud", ranks, 20, 29)
    job = Job([episode], [(int((1 + s) * 1e9), parts) for s, parts in reports])
    score(job, STEPS, MARKS)
    return job, episode


def test_the_first_right_alert_counts_from_the_mark() -> None:
    job, episode = scored(
        (3, [part("slow_worker", (5,))]),
        (7, [part("launch_skew", (5,), first=21)]),
        (9, [part("launch_skew", (5,))]),
    )
    assert (episode.delay_s, episode.onset, episode.kept) == (7.0, 21, True)
    assert episode.delay_steps == pytest.approx(7.0 / 1.5)
    assert episode.other_kind == ["slow_worker [5]"]
    assert (episode.step_ratio, episode.reached) == (1.5, "loud")
    assert (job.step_ms, job.false, episode.wrong) == (1000.0, [], [])
    assert job.healthy_hours == pytest.approx((len(STEPS) - 11) / 3600)


@pytest.mark.parametrize("ranks", [(4,), (4, 5)], ids=["another", "one too many"])
def test_another_rank_is_a_wrong_name(ranks: tuple[int, ...]) -> None:
    _, episode = scored((3, [part("launch_skew", ranks)]))
    assert episode.delay_s is None
    assert episode.wrong == [f"launch_skew {list(ranks)}"]


def test_two_culprits_are_right_only_together() -> None:
    one, other = part("launch_skew", (1,)), part("launch_skew", (5,))
    _, episode = scored((3, [one]), (5, [one, other]), fault="two-late-ranks", ranks=(1, 5))
    assert (episode.delay_s, episode.wrong, episode.other_kind) == (5.0, [], [])
    _, episode = scored((3, [one]), (5, [other]), fault="two-late-ranks", ranks=(1, 5))
    assert episode.delay_s is None


def test_each_episode_of_a_finding_counts_by_its_steps() -> None:
    came_twice = a_finding(first_step=4, last_step=29, episodes=((4, 7), (21, 29)))
    parts = parts_of(Diagnosis((Verdict("slow_worker", (came_twice,)),)))
    assert [part["steps"] for part in parts] == [[4, 7], [21, 29]]
    _, episode = scored((3, parts), fault="slow-rank")
    assert (episode.delay_s, episode.onset) == (3.0, 21)


def test_where_nobody_is_the_reason_nobody_may_be_named() -> None:
    _, episode = scored(
        (3, [part("launch_skew", (2,))]),
        (4, [part("data_loader")]),
        (6, [part("launch_skew")]),
        fault="rotating-late",
        ranks=(),
    )
    assert episode.delay_s == 6.0
    assert (episode.wrong, episode.job_level) == (["launch_skew [2]"], ["data_loader nobody"])


def test_a_job_level_finding_beside_a_culprit_is_no_wrong_name() -> None:
    _, episode = scored((3, [part("step_regression")]))
    assert (episode.delay_s, episode.wrong) == (None, [])
    assert episode.job_level == ["step_regression nobody"]


def test_what_is_about_the_recording_is_counted_apart() -> None:
    _, episode = scored((3, [part("data_gaps", (1, 2))]))
    assert (episode.wrong, episode.of_recording) == ([], ["data_gaps [1, 2]"])


@pytest.mark.parametrize(("first", "last"), [(4, 9), (40, 50)])
def test_a_finding_about_other_steps_is_false(first: int, last: int) -> None:
    job, episode = scored((3, [part("launch_skew", (5,), first, last)]))
    assert (episode.delay_s, episode.wrong) == (None, [])
    [false] = job.false
    assert (text_of(false), false["steps"], names(false)) == (
        "launch_skew [5]",
        [first, last],
        True,
    )


def test_a_finding_that_begins_early_but_lies_in_the_episode_is_of_it() -> None:
    _, episode = scored((3, [part("launch_skew", (5,), 15, 29)]))
    assert (episode.delay_s, episode.onset) == (3.0, 15)


def test_a_culprit_that_is_named_for_mostly_other_steps_is_misdated() -> None:
    job, episode = scored(
        (3, [part("launch_skew", (5,), 4, 25)]), (4, [part("gc_pauses", (1,), 4, 25)])
    )
    assert (episode.delay_s, episode.misdated, episode.wrong) == (None, ["launch_skew [5]"], [])
    assert [text_of(false) for false in job.false] == ["gc_pauses [1]"]
    early, other = part("jit_spikes", (), 4, 25), part("gc_pauses", (), 4, 25)
    job, episode = scored((3, [early, other]), fault="spikes-all", ranks=())
    assert (episode.delay_s, episode.misdated) == (None, ["jit_spikes nobody"])
    assert [text_of(false) for false in job.false] == ["gc_pauses nobody"]


def test_a_false_finding_that_comes_again_is_one() -> None:
    job, _ = scored(
        (3, [part("slow_worker", (1,), 40, 44)]),
        (4, [part("slow_worker", (1,), 42, 48)]),
        (5, [part("slow_worker", (1,), 55, 58)]),
    )
    assert [false["steps"] for false in job.false] == [[40, 48], [55, 58]]


def test_a_job_level_finding_is_true_where_steps_were_longer() -> None:
    steps = {step: 1100.0 if step >= 30 else 1000.0 for step in range(2, 60)}
    job = Job([], [(1, [part("step_regression", first=30, last=59)])])
    score(job, steps, {})
    assert [is_true(false) for false in job.false] == [True]
    job = Job([], [(1, [part("step_regression", first=10, last=20)])])
    score(job, steps, {})
    assert [is_true(false) for false in job.false] == [False]


def test_what_strikes_now_and_then_is_measured_on_average() -> None:
    steps = {step: 6000.0 if step in (22, 27) else 1000.0 for step in range(2, 60)}
    for fault, ratio in (("spikes", 2.0), ("late-step", 1.0)):
        job = Job([Episode(fault, "loud", (5,), 20, 29)])
        score(job, steps, MARKS)
        assert job.episodes[0].step_ratio == ratio
    assert job.episodes[0].reached == "below"
