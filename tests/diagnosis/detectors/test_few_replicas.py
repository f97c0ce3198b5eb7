"""few_replicas on hand-built tables: a slow rank with one or two peers, from the first step on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diagnosis.detectors.few_replicas import detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Compute, tables
from trace_hooks.layout import ParallelLayout

STEPS = 30
PP4_DP2 = ParallelLayout.from_sizes(pp=4, dp=2)


def slow(*ranks: int, x: float = 1.3, first: int = 0) -> Compute:
    return lambda rank, step: 100.0 * (x if rank in ranks and step >= first else 1.0)


def judged(layout: ParallelLayout, compute: Compute, **given: Any) -> Verdict | None:
    return detect(tables(layout, STEPS, compute, **given), attempt=0)


def named(verdict: Verdict | None) -> list[tuple[int, int]]:
    assert verdict is not None
    return sorted((f.culprits[0].rank, f.first_step) for f in verdict.findings)


@pytest.mark.parametrize("sizes", [{"pp": 3, "dp": 2}, {"pp": 4, "dp": 3}, {"pp": 8, "dp": 2}])
@pytest.mark.parametrize(("x", "first"), [(1.15, 0), (2.0, 0), (1.5, 10)])
def test_the_slow_rank_alone(sizes: dict[str, int], x: float, first: int) -> None:
    verdict = judged(ParallelLayout.from_sizes(**sizes), slow(5, x=x, first=first))
    assert named(verdict) == [(5, first)]
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.kind, finding.confidence) == ("slow_worker", "medium")
    assert finding.slowdown == pytest.approx(x, abs=0.02)
    assert finding.evidence[0].number == finding.slowdown
    assert "same stage of the other replicas" in finding.evidence[0].sentence
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(100 * (x - 1), abs=2)


def test_two_slow_ranks_of_different_replicas() -> None:
    assert named(judged(PP4_DP2, slow(0, 5))) == [(0, 0), (5, 0)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.003, 0.02, 0.1])
def test_healthy_jobs_have_none(seed: int, noise: float) -> None:
    for sizes in ({"pp": 3, "dp": 2}, {"pp": 6, "dp": 3}):
        layout = ParallelLayout.from_sizes(**sizes)
        assert named(judged(layout, slow(), seed=seed, noise=noise)) == []


@pytest.mark.parametrize("axis", ["pp", "dp"])
def test_a_whole_stage_or_replica_is_nobody(axis: str) -> None:
    members = [rank for rank in range(8) if PP4_DP2.coords(rank)[axis] == 1]
    assert named(judged(PP4_DP2, slow(*members))) == []


def test_work_that_differs_from_step_to_step_in_each_replica_is_nobody() -> None:
    random = np.random.default_rng(3)
    work = random.lognormal(0.1, 0.25, (STEPS, 2))

    def compute(rank: int, step: int) -> float:
        return 100.0 * float(work[step, PP4_DP2.coords(rank)["dp"]])

    assert named(judged(PP4_DP2, compute)) == []


def test_with_three_peers_two_stages_or_no_layout_it_is_silent() -> None:
    for sizes in ({"pp": 4, "dp": 4}, {"pp": 2, "dp": 2}, {"pp": 8}):
        assert judged(ParallelLayout.from_sizes(**sizes), slow(1)) is None
    assert judged(PP4_DP2, slow(1), known_layout=False) is None


def test_half_of_a_replica_is_nobody() -> None:
    """Two of four stages: the other replica may as well be the odd one."""
    members = [rank for rank in range(8) if PP4_DP2.coords(rank)["dp"] == 1][:2]
    assert named(judged(PP4_DP2, slow(*members))) == []
