"""slow_stage on hand-built tables: whole stages, not single ranks, and no healthy pipeline."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from diagnosis.detectors.slow_stage import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import OPS, Compute, tables
from trace_hooks.layout import ParallelLayout

PP4_DP2_TP2 = ParallelLayout.from_sizes(pp=4, dp=2, tp=2)
STEPS, FROM = 30, 9


def stage_of(layout: ParallelLayout, stage: int, x: float, first: int = FROM) -> Compute:
    return lambda rank, step: (
        100.0 * (x if layout.coords(rank)["pp"] == stage and step >= first else 1.0)
    )


def judged(layout: ParallelLayout, compute: Compute, seed: int = 1) -> Verdict:
    return detect(tables(layout, STEPS, compute, seed=seed, noise=0.01), attempt=0)


@pytest.mark.parametrize("x", [1.5, 1.15, 1.07])
@pytest.mark.parametrize("first", [0, FROM])
def test_the_stage_and_its_first_step(x: float, first: int) -> None:
    (finding,) = judged(PP4_DP2_TP2, stage_of(PP4_DP2_TP2, 3, x, first)).findings
    assert (finding.kind, finding.stages, finding.culprits) == ("slow_stage", (3,), ())
    assert abs(finding.first_step - first) <= 2
    assert finding.slowdown == pytest.approx(x, abs=0.03)
    assert finding.id == f"slow_stage-0-stage3-{finding.first_step}"


@pytest.mark.parametrize("seed", range(6))
def test_stages_that_swing_for_some_steps_are_not_slow(seed: int) -> None:
    swing_PB = np.exp(np.random.default_rng(seed).normal(0.0, 0.15, (4, STEPS // 5)))

    def compute(rank: int, step: int) -> float:
        return 100.0 * float(swing_PB[PP4_DP2_TP2.coords(rank)["pp"], step // 5])

    assert judged(PP4_DP2_TP2, compute).findings == ()


def test_of_two_stages_a_change_is_a_finding_and_a_difference_is_not() -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=4)
    assert [f.stages for f in judged(layout, stage_of(layout, 1, 1.3)).findings] == [(1,)]
    always = judged(layout, stage_of(layout, 1, 1.3, first=0))
    assert always.findings == ()
    assert always.not_enough[0].missing.startswith("Stage 1 computes 1.3")
    assert judged(layout, stage_of(layout, 1, 1.0)).not_enough == ()
    assert always.checked is not None
    assert always.checked.startswith("Neither of the 2 stages became 5 % slower")


def test_of_two_stages_the_one_that_was_longer_for_most_of_the_time_is_named() -> None:
    layout = ParallelLayout.from_sizes(pp=2, dp=4)

    def compute(rank: int, step: int) -> float:
        return 150.0 if layout.coords(rank)["pp"] == 1 and 7 <= step < 23 else 100.0

    (finding,) = judged(layout, compute).findings
    assert (finding.stages, finding.first_step, finding.last_step) == ((1,), 7, 22)


def test_a_stage_of_one_rank_that_was_always_slow_is_found() -> None:
    layout = ParallelLayout.from_sizes(pp=4)
    (finding,) = judged(layout, stage_of(layout, 3, 1.3, first=0)).findings
    assert (finding.stages, finding.confidence) == ((3,), "medium")
    assert "slow worker" in finding.alternatives[0]
    assert judged(layout, stage_of(layout, 3, 1.3)).findings == ()  # that is a slow worker


def test_single_slow_ranks_make_no_slow_stage() -> None:
    slow = [rank for rank in range(16) if PP4_DP2_TP2.coords(rank)["pp"] == 2][:3]
    verdict = judged(PP4_DP2_TP2, lambda rank, step: 150.0 if rank in slow else 100.0)
    assert verdict.findings == ()


@pytest.mark.parametrize(
    ("cpu_ms", "wall_ms", "num"), [(110.0, 115.0, 1), (110.0, 150.0, 0), (160.0, 300.0, 1)]
)
def test_a_stage_that_stands_still_for_longer_than_it_computes_a_little_longer_is_set_aside(
    cpu_ms: float, wall_ms: float, num: int
) -> None:
    wall, cpu = (stage_of(PP4_DP2_TP2, 3, ms / 100) for ms in (wall_ms, cpu_ms))
    table = tables(PP4_DP2_TP2, STEPS, wall, cpu_ms=cpu, device="cpu")
    verdict = detect(table, attempt=0)
    assert len(verdict.findings) == num
    assert len(verdict.set_aside) == 1 - num
    assert all("stands still without CPU time" in text for text in verdict.set_aside)


@pytest.mark.parametrize(("typical_ms", "num"), [(129.0, 1), (101.0, 0)])
def test_a_stage_whose_last_spans_alone_are_longer_may_wait_in_them(
    typical_ms: float, num: int
) -> None:
    """Its median span is longer, too, or only those that hold waiting are."""
    ops = [
        {
            "rank": rank,
            "step": step,
            "name": "forward",
            "op_ms": 130.0,
            "typical_ms": typical_ms if rank >= 12 and step >= FROM else 100.0,
            "depth": 0,
            "num_spans": 8,
        }
        for rank in (0, 3, 4, 7, 8, 11, 12, 15)
        for step in range(STEPS)
    ]
    table = tables(PP4_DP2_TP2, STEPS, stage_of(PP4_DP2_TP2, 3, 1.3))
    verdict = detect({**table, "op_times": pa.Table.from_pylist(ops, OPS)}, attempt=0)
    assert len(verdict.findings) == num
    assert all("only some of its spans are longer" in text for text in verdict.set_aside)
    assert len(verdict.set_aside) == 1 - num


def test_only_the_longest_stage_sets_the_pace() -> None:
    pace = (1.08, 1.0, 1.0, 1.3)
    verdict = judged(PP4_DP2_TP2, lambda rank, step: 100.0 * pace[PP4_DP2_TP2.coords(rank)["pp"]])
    assert [finding.stages for finding in verdict.findings] == [(3,)]


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_pipeline(seed: int) -> None:
    verdict = judged(PP4_DP2_TP2, lambda rank, step: 100.0 + step % 2, seed)
    assert verdict.findings == ()
    assert (verdict.checked or "").startswith("No stage of 4 took longer than the others")


def test_one_stage_has_nothing_to_compare_with() -> None:
    verdict = judged(ParallelLayout.from_sizes(dp=8), lambda rank, step: 100.0)
    assert "Fewer than two pipeline stages" in verdict.not_enough[0].missing
