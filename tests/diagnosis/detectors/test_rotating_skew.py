"""launch_skew whose leader alternates, on hand-built tables."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors.rotating_skew import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

DP16 = ParallelLayout.from_sizes(dp=16)
STEPS, FROM = 40, 12


def judged(phases: Phases, layout: ParallelLayout = DP16, noise: float = 0.01) -> Verdict:
    return detect(phase_tables(layout, STEPS, phases, noise=noise), attempt=0)


def skewed(mean_ms: float, first: int, seed: int = 3, ranks: int = 16) -> Phases:
    """Random delays of each rank and step outside of all phases; all end with the last."""
    delay_SR = np.random.default_rng(seed).exponential(mean_ms, (STEPS, ranks))
    delay_SR[:first] = 0

    def phases(rank: int, step: int) -> dict[str, float]:
        own, most = float(delay_SR[step, rank]), float(delay_SR[step].max())
        return {
            "step_ms": 200 + most,
            "covered_ms": 200 + most - own,
            "compute_ms": 150.0,
            "comm_ms": 48 + most - own,
        }

    return phases


@pytest.mark.parametrize(("num", "is_told"), [(8, True), (7, False)])
def test_a_few_steps_are_swings(num: int, is_told: bool) -> None:
    since = skewed(30.0, FROM)

    def phases(rank: int, step: int) -> dict[str, float]:
        return since(rank, step) if step < FROM + num else {}

    assert bool(judged(phases).findings) == is_told


@pytest.mark.parametrize("mean_ms", [30.0, 8.0])
def test_since_a_step(mean_ms: float) -> None:
    (finding,) = judged(skewed(mean_ms, FROM)).findings
    assert (finding.kind, finding.culprits) == ("launch_skew", ())
    assert abs(finding.first_step - FROM) <= 2
    assert finding.ongoing


def test_steps_that_are_no_longer_for_it_name_nobody() -> None:
    """Ranks lead by turns since a step, but steps take as long as before."""
    late = skewed(12.0, FROM)

    def phases(rank: int, step: int) -> dict[str, float]:
        cells = late(rank, step)
        longer = cells["step_ms"] - 200
        return cells | {"step_ms": 200.0, "comm_ms": max(cells["comm_ms"] - longer, 0.0)}

    assert judged(phases).findings == ()


def test_what_has_always_been_so_may_be_usual() -> None:
    assert judged(skewed(40.0, 0)).findings == ()


def test_one_rank_that_leads_is_another_detectors() -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        own = 60.0 if rank == 5 and step >= FROM else 0.0
        return {"step_ms": 260.0, "covered_ms": 255 - own, "comm_ms": 100 - own}

    assert judged(phases).findings == ()


def test_hooks_that_delay_all_ranks_equally_are_no_skew() -> None:
    verdict = judged(lambda rank, step: {"step_ms": 260.0 if step >= FROM else 200.0})
    assert verdict.findings == ()


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_a_healthy_job(noise: float) -> None:
    verdict = judged(lambda rank, step: {}, noise=noise)
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_few_ranks_are_not_judged() -> None:
    verdict = judged(skewed(30, FROM, ranks=2), ParallelLayout.from_sizes(dp=2))
    assert "Fewer than 4 ranks" in verdict.not_enough[0].missing


def test_what_collections_bring_with_them_is_no_skew() -> None:
    """Objects are made before they are collected, on another rank in each step."""

    def phases(rank: int, step: int) -> dict[str, float]:
        if step < 10:
            return {}
        if rank != (step * 7) % 16:
            return {"step_ms": 280.0, "comm_ms": 120.0}
        return {"step_ms": 280.0, "comm_ms": 40.0, "gc_ms": 45.0, "covered_ms": 235.0}

    tables = phase_tables(ParallelLayout.from_sizes(dp=16), 40, phases)
    assert detect(tables, attempt=0).findings == ()
