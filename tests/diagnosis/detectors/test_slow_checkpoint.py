"""slow_checkpoint on hand-built tables: saves that cost too much, that became slow, that one rank
is slow at, and healthy ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors.slow_checkpoint import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS, EVERY, STEP_MS = 100, 10, 200.0


def saving(
    save_ms: float, slow: dict[int, float] | None = None, first: int = 0, last: int = STEPS
) -> Phases:
    """All ranks save every tenth step and wait for the slowest; `slow`: ms of some ranks from step
    `first` to `last`.
    """
    slow = slow or {}

    def phases(rank: int, step: int) -> dict[str, float]:
        if step % EVERY != EVERY - 1:
            return {}
        noise = np.random.default_rng([step, rank]).normal(0, 0.03 * save_ms)
        late = slow if first <= step <= last else {}
        longest = max([save_ms, *late.values()])
        own = late.get(rank, late.get(-1, save_ms)) + noise
        return {"step_ms": STEP_MS + longest, "checkpoint_ms": own, "comm_ms": 40.0 + longest - own}

    return phases


def judged(phases: Phases) -> Verdict:
    return detect(phase_tables(DP8, STEPS, phases), attempt=0)


@pytest.mark.parametrize("save_ms", [1000.0, 300.0, 120.0])
def test_saves_that_cost_more_than_a_good_one(save_ms: float) -> None:
    (finding,) = judged(saving(save_ms)).findings
    assert (finding.kind, finding.culprits, finding.first_step) == ("slow_checkpoint", (), 9)
    assert finding.ongoing
    assert finding.cost is not None
    share = save_ms / (save_ms + EVERY * STEP_MS)
    assert finding.cost.share == pytest.approx(share, rel=0.1)
    assert "every 10 steps" in finding.evidence[0].sentence


def test_what_goes_with_a_save_and_was_not_recorded_is_named() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        known = saving(120.0)(rank, step)
        return known | {"step_ms": 5000.0, "comm_ms": 4700.0} if known else {}

    (finding,) = judged(phases).findings
    assert "longer than the others, and the saves that were recorded take 1" in finding.text
    (plain,) = judged(saving(120.0)).findings
    assert "recorded" not in plain.text


def test_saves_that_became_slow() -> None:
    (finding,) = judged(saving(20.0, {-1: 60.0}, first=50)).findings
    assert (finding.first_step, finding.culprits) == (59, ())
    assert "Before, in steps 0 to 58" in finding.evidence[1].sentence


def test_saves_that_were_slow_for_a_while() -> None:
    (finding,) = judged(saving(20.0, {-1: 200.0}, first=35, last=85)).findings
    assert (finding.first_step, finding.last_step, finding.severity) == (39, 79, "past")
    assert "Before, in steps 0 to 38" in finding.evidence[1].sentence
    assert judged(saving(20.0, {-1: 200.0}, first=35, last=55)).findings == ()


@pytest.mark.parametrize("slow_ms", [400.0, 120.0, 50.0])
def test_a_rank_that_saves_longer_is_named(slow_ms: float) -> None:
    (finding,) = judged(saving(20.0, {3: slow_ms})).findings
    assert [place.rank for place in finding.culprits] == [3]
    assert finding.victims == (0, 1, 2, 4, 5, 6, 7)


@pytest.mark.parametrize(("other_ms", "named"), [(60.0, [3]), (300.0, [3, 5])])
def test_a_rank_that_saves_far_shorter_than_the_longest_holds_up_nobody(
    other_ms: float, named: list[int]
) -> None:
    (finding,) = judged(saving(20.0, {3: 400.0, 5: other_ms})).findings
    assert [place.rank for place in finding.culprits] == named


def test_a_rank_that_saves_alone_is_named() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        if step % EVERY:
            return {}
        own = 300.0 if rank == 0 else 0.0
        return {"step_ms": 500.0, "checkpoint_ms": own, "comm_ms": 340.0 - own}

    (finding,) = judged(phases).findings
    assert [place.rank for place in finding.culprits] == [0]


@pytest.mark.parametrize("save_ms", [10.0, 40.0])
def test_saves_within_the_bound_are_healthy(save_ms: float) -> None:
    verdict = judged(saving(save_ms))
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_a_rank_whose_longer_saves_cost_next_to_nothing() -> None:
    assert judged(saving(2.0, {3: 8.0})).findings == ()


def test_too_few_saves() -> None:
    one = judged(lambda r, s: {"checkpoint_ms": 400.0, "step_ms": 600.0} if s == 50 else {})
    assert "1 finished step has a checkpoint save" in one.not_enough[0].missing
    assert "No checkpoint save" in judged(lambda r, s: {}).not_enough[0].missing
