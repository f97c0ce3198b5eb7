"""Cells of several ranks: what the cell takes and who of them is slow, in generated jobs, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.analysis.imports import open_any
from app.views.whatif.analysis import Answer, whatif_of
from diagnosis.whatif.analysis import WhatIf, prepare, what_if, without
from diagnosis.whatif.causes import Cause, causes
from diagnosis.whatif.operations import Sizes, dense
from diagnosis.whatif.recorded import recorded_operations
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.ideal import true_S
from sample_traces.generate.tables.write import generate
from tests.diagnosis.whatif.test_recorded import span

SLOW_MS = 6


def rank_rows(dp: int, member: int, slow: bool) -> list[dict[str, Any]]:
    """A forward and a backward of two ranks that reduce at the end of each; one computes longer."""
    cell = {"dp": dp, "rank": 2 * dp + member, "member": member}
    longer = SLOW_MS if slow else 0
    waits = SLOW_MS * (dp == 1)  # for whoever is slow in this cell
    forward, backward = 10 + waits + 1, 30 + 2 * waits + 2
    return [
        span("forward", 0, forward, microbatch=0, chunk=0, **cell),
        span("tp_comm", 10 + longer, forward, **cell),
        span("backward", forward, backward, microbatch=0, chunk=0, **cell),
        span("tp_comm", forward + 19 + longer, backward, **cell),
        span("optimizer", backward, backward + 3 + 0.5 * member, **cell),
    ]


def two_cells(slow_rank: int | None = 3) -> list[dict[str, Any]]:
    """Two replicas of two ranks each; ranks 2 and 3 are the second one."""
    places = [(dp, member) for dp in (0, 1) for member in (0, 1)]
    return [row for dp, t in places for row in rank_rows(dp, t, 2 * dp + t == slow_rank)]


def replayed(rows: list[dict[str, Any]], sizes: Sizes) -> tuple[WhatIf, tuple[Cause, ...]]:
    table, _ = recorded_operations(pa.Table.from_pylist(rows), sizes)
    prepared = prepare(dense(table, sizes))
    return what_if(prepared), causes(prepared)


@pytest.mark.parametrize("slow", [2, 3])
def test_the_member_whose_own_time_is_long_is_named(slow: int) -> None:
    metrics, found = replayed(two_cells(slow), Sizes(2, 1))
    assert metrics.M_W_ranks == (slow,)
    assert max(metrics.S_w, key=metrics.S_w.__getitem__) == slow
    assert metrics.S_w[5 - slow] < 1 < metrics.S_w[slow]
    assert [(cause.kind, cause.ranks) for cause in found] == [("slow_worker", (slow,))]
    assert set(metrics.S_w) == {0, 1, 2, 3}


def test_two_slow_members_of_one_cell_are_one_cause() -> None:
    rows = [*rank_rows(0, 0, False), *rank_rows(0, 1, False)]
    rows += [*rank_rows(1, 0, True), *rank_rows(1, 1, True)]
    third = [{**row, "dp": 2, "rank": row["rank"] + 4} for row in rows if row["dp"] == 0]
    _, found = replayed([*rows, *third], Sizes(3, 1))
    assert [(cause.kind, cause.ranks) for cause in found] == [("slow_worker", (2, 3))]
    assert found[0].text.startswith("ranks 2, 3 compute 1.")


def answered(folder: Path, job: SyntheticJob) -> Answer:
    generate(job, folder / "run")
    with open_any(folder / "run") as run:
        return whatif_of(run)


@pytest.mark.sampled
@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("kind", "x"), [("slow_worker", 1.4), ("slow_link", 12.0), ("slow_dp_network", 12.0)]
)
def test_a_planted_fault_is_named_and_S_is_right(
    kind: str, x: float, last: bool, tp: int, tmp_path: Path
) -> None:
    """One of the members of (stage 0, dp rank 1): the first, or the last one."""
    rank = tp + (tp - 1 if last else 0)
    job = SyntheticJob(8 * tp, 2, tp, 6, seed=tp, faults=(SyntheticFault(kind, rank, x),))
    answer = answered(tmp_path, job)
    metrics = answer.metrics
    assert pytest.approx(true_S(job), rel=0.04) == metrics.S
    meant = {
        "slow_worker": {rank},
        "slow_link": {rank, rank + 4 * tp},
        "slow_dp_network": set(range(rank % tp, 4 * tp, tp)),
    }[kind]
    assert set(metrics.M_W_ranks) <= meant
    if kind != "slow_dp_network" or tp > 1:  # two stages alone: which one is usual?
        worst = sorted(metrics.S_w, key=lambda one: -metrics.S_w[one])[: len(meant)]
        assert set(worst) == meant
        (cause,) = causes(answer.prepared)
        assert (cause.kind, set(cause.ranks)) == (kind, meant)


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_job_of_several_ranks_a_cell(seed: int, tmp_path: Path) -> None:
    answer = answered(tmp_path, SyntheticJob(16, 2, 4, 8, seed=seed))
    assert answer.metrics.S < 1.03
    assert max(answer.metrics.S_w.values()) < 1.03
    assert causes(answer.prepared) == ()


@pytest.mark.parametrize("fixed", [(3,), (0, 1), (2, 3), (1, 2)])
def test_m_w_leaves_what_the_other_members_take(fixed: tuple[int, ...]) -> None:
    """A cell whose ranks are all ideal takes what is ideal; else its slowest other rank decides."""
    table, _ = recorded_operations(pa.Table.from_pylist(two_cells()), Sizes(2, 1))
    prepared = prepare(dense(table, Sizes(2, 1)))
    own_OSDT, ideal_O = prepared.own_OSDT, prepared.ideal_O
    ranks_DT = prepared.ops.rank_PDT[0]
    per_cell = []
    for dp in (0, 1):
        others = [t for t in (0, 1) if ranks_DT[dp, t] not in fixed]
        own_ON = own_OSDT[:, 0, dp, others]
        touched = len(others) < 2
        own_O = np.max(np.column_stack([own_ON, ideal_O] if touched else [own_ON]), axis=1)
        per_cell.append(float(own_O.sum()))
    flat = np.flatnonzero(np.isin(prepared.ops.rank_PDT.ravel(), fixed))
    assert without(prepared, flat) == pytest.approx(max(per_cell))
