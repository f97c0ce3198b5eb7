"""Which jobs of benchmarks/real_faults.py get which faults, and with what dose."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice, pairwise

import pytest

from benchmarks.real.kinds import DOSES, KINDS, LAYOUTS
from benchmarks.real.plan import (
    LEAST_ON,
    LEAST_TURNS,
    MOST_CORRECTED,
    OFF_STEPS,
    WARM_UP,
    Crossing,
    Episode,
    crossings,
    expected_step_ms,
    gain_of,
    planned,
)
from diagnosis.detectors import KINDS as FINDINGS
from sample_traces.jobs.faults import Fault


def test_a_seed_gives_the_same_jobs_again() -> None:
    assert list(islice(crossings(5), 20)) == list(islice(crossings(5), 20))
    assert list(islice(crossings(5), 20)) != list(islice(crossings(6), 20))


def test_every_kind_dose_layout_and_neighbour_is_drawn_about_as_often() -> None:
    drawn = list(islice(crossings(1), 3 * len(KINDS)))
    faults = Counter(fault for crossing in drawn for fault in crossing.faults)
    assert set(faults) == {(kind, dose) for kind in KINDS for dose in DOSES}
    assert max(faults.values()) <= 3
    sorts = Counter((crossing.layout, crossing.neighbour) for crossing in drawn)
    assert len(sorts) == 2 * len(LAYOUTS)
    assert min(sorts.values()) >= 3


def test_a_layout_gets_only_faults_that_it_can_have() -> None:
    for crossing in islice(crossings(2), 100):
        for kind, _ in crossing.faults:
            assert crossing.layout in KINDS[kind].layouts
    links = islice(crossings(3, kinds=["slow-link"]), 4)
    assert {crossing.layout for crossing in links} == {"3d"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_plan_is_what_the_job_takes(layout: str) -> None:
    faults = [(k, d) for k in KINDS for d in DOSES if layout in KINDS[k].layouts]
    episodes = planned(Crossing(layout, False, tuple(faults)), 300.0, [], "3")
    assert episodes[0].first == WARM_UP
    for before, after in pairwise(episodes):
        assert after.first - before.last > OFF_STEPS
    for episode in episodes:
        kind = KINDS[episode.fault]
        parsed = [Fault.parse(text) for text in episode.texts]
        assert {(p.first_step, p.last_step) for p in parsed} == {(episode.first, episode.last)}
        named = {rank for p in parsed for rank in (p.rank, p.peer) if rank is not None}
        assert tuple(sorted(named)) == episode.ranks
        assert max(episode.ranks, default=0) < LAYOUTS[layout].num_ranks
        assert len(episode.ranks) == {"one": 1, "two": 2, "pair": 2}.get(kind.whom, 0)
        assert parsed[0].kind == kind.fault
        length = episode.last - episode.first + 1
        assert length >= max(LEAST_ON, LEAST_TURNS * kind.every)


def test_a_link_joins_two_replicas() -> None:
    crossing = Crossing("3d", False, (("slow-link", "loud"),) * 20)
    pairs = {episode.ranks for episode in planned(crossing, 300.0, [], "1")}
    assert pairs == {(0, 2), (1, 3), (4, 6), (5, 7)}


def test_right_kinds_are_kinds_of_findings() -> None:
    assert {name for kind in KINDS.values() for name in kind.right} <= set(FINDINGS)


def measured(ratio: float, own: float = 1.0) -> Episode:
    return Episode("late-step", "loud", (1,), 25, 60, own, step_ratio=ratio)


def test_a_fault_that_cost_too_little_is_planned_stronger() -> None:
    usual = KINDS["late-step"].gain
    assert gain_of("late-step", []) == usual
    assert gain_of("late-step", [measured(1.5)]) == pytest.approx(2.0)
    assert gain_of("gc", [measured(1.5)]) == KINDS["gc"].gain
    assert gain_of("late-step", [measured(math.nan)]) == usual
    assert gain_of("late-step", [measured(0.9)]) == usual * MOST_CORRECTED


def test_a_dose_follows_the_gain() -> None:
    crossing = Crossing("ddp", False, (("late-step", "quiet"),))
    [weak] = planned(crossing, 300.0, [measured(2.0)], "1")
    [strong] = planned(crossing, 300.0, [measured(1.25)], "1")
    assert strong.own == pytest.approx(4 * weak.own)
    assert Fault.parse(strong.texts[0]).ms == pytest.approx(strong.own * 300, abs=0.1)


def test_step_time_is_expected_of_alike_jobs_only() -> None:
    jobs = [
        {"layout": "ddp", "neighbour": False, "step_ms": ms} for ms in (900.0, 100.0, 120.0, 110.0)
    ]
    jobs.append({"layout": "ddp", "neighbour": True, "step_ms": 500.0})
    assert expected_step_ms(jobs, "ddp", False) == 110.0
    assert expected_step_ms(jobs, "ddp", True) == 500.0
    assert expected_step_ms(jobs, "3d", False) is None
