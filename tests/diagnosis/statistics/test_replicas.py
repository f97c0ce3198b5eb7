"""Ranks of two or three replicas, compared stage by stage."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.peers import Work, work_of
from diagnosis.statistics.replicas import beyond_replicas, without_halves
from tests.diagnosis.work_tables import Compute, tables
from trace_hooks.layout import ParallelLayout

STEPS = 12


def work(layout: ParallelLayout, compute_ms: Compute) -> Work:
    return work_of(tables(layout, STEPS, compute_ms, noise=0.0))


def excess_R(layout: ParallelLayout, factors: dict[int, float]) -> dict[int, float]:
    """Median excess of every rank; `factors`: x by rank."""
    of_job = work(layout, lambda rank, step: 100.0 * factors.get(rank, 1.0))
    excess_RS = beyond_replicas(of_job, np.ones(layout.world_size, np.bool_))
    return dict(enumerate(np.median(excess_RS, axis=1).tolist()))


@pytest.mark.parametrize("sizes", [{"pp": 3, "dp": 2}, {"pp": 4, "dp": 3}, {"pp": 8, "dp": 2}])
@pytest.mark.parametrize("slow", [0, 3])
def test_a_slow_rank_stands_out_and_nobody_else(sizes: dict[str, int], slow: int) -> None:
    excess = excess_R(ParallelLayout.from_sizes(**sizes), {slow: 1.5})
    assert excess.pop(slow) == pytest.approx(0.5)
    assert max(excess.values()) <= 1e-9


def test_more_work_in_a_replica_or_a_stage_is_no_slowness() -> None:
    layout = ParallelLayout.from_sizes(pp=4, dp=2)
    coords = [layout.coords(rank) for rank in range(8)]
    replica = {rank: 1.4 for rank in range(8) if coords[rank]["dp"] == 1}
    stage = {rank: 1.4 for rank in range(8) if coords[rank]["pp"] == 3}
    assert max(excess_R(layout, replica).values()) <= 1e-9
    assert max(excess_R(layout, stage).values()) <= 1e-9


def test_a_slow_rank_among_replicas_of_different_work() -> None:
    layout = ParallelLayout.from_sizes(pp=5, dp=2)
    coords = [layout.coords(rank) for rank in range(10)]
    factors = {rank: 1.2 for rank in range(10) if coords[rank]["dp"] == 1}
    slow = next(r for r in factors if coords[r]["pp"] == 2)
    excess = excess_R(layout, {**factors, slow: 1.2 * 1.5})
    assert excess.pop(slow) == pytest.approx(0.5)
    assert max(excess.values()) <= 1e-9


def test_two_stages_one_replica_or_an_unknown_layout_cannot_be_compared() -> None:
    for sizes in ({"pp": 2, "dp": 2}, {"pp": 8}):
        assert np.isnan(list(excess_R(ParallelLayout.from_sizes(**sizes), {0: 1.5}).values())).all()
    layout = ParallelLayout.from_sizes(pp=4, dp=2)
    unknown = work_of(tables(layout, STEPS, lambda rank, step: 100.0, known_layout=False))
    assert np.isnan(beyond_replicas(unknown, np.ones(8, np.bool_))).all()


def test_where_half_of_a_replica_stands_out_it_is_unknown_which_one_is_normal() -> None:
    layout = ParallelLayout.from_sizes(pp=4, dp=2)
    ranks = work(layout, lambda rank, step: 100.0).ranks
    replica = [rank for rank in range(8) if layout.coords(rank)["dp"] == 0]
    other = next(rank for rank in range(8) if rank not in replica)
    assert without_halves(ranks, replica[:1]) == set(replica[:1])
    assert without_halves(ranks, [*replica[:2], other]) == {other}
    assert without_halves(ranks, []) == set()
