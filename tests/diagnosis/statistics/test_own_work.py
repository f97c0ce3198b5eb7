"""Forwards are the measure of work where compute holds waiting for other ranks, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.own_work import own_work
from diagnosis.statistics.peers import work_of
from tests.diagnosis.work_tables import tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)


def uneven_ms(rank: int, step: int) -> float:
    """Forwards of which the median rank has 10 ms less than the longest."""
    return 60.0 if rank == 5 else 50.0


@pytest.mark.parametrize(
    ("wait_ms", "measure"), [(0.0, "forward"), (1.0, "forward"), (9.0, "wall")]
)
def test_forwards_are_compared_where_groups_recorded_less_waiting_than_they_cause(
    wait_ms: float, measure: str
) -> None:
    given = {"caused_ms": lambda rank, step: 0.0, "wait_ms": wait_ms, "forward_ms": uneven_ms}
    work = own_work(work_of(tables(DP8, 10, lambda rank, step: 150.0, **given)))
    assert work.measure == measure
    if measure == "forward":
        assert work.work_RS[5].tolist() == [60.0] * 10
        assert np.isnan(work.wait_caused_RS).all()


@pytest.mark.parametrize("forward_ms", [None, uneven_ms])
def test_what_is_not_recorded_changes_nothing(forward_ms: object) -> None:
    caused_ms = (lambda rank, step: 0.0) if forward_ms is None else None
    given = {"caused_ms": caused_ms, "wait_ms": 0.0, "forward_ms": forward_ms}
    work = work_of(tables(DP8, 10, lambda rank, step: 150.0, **given))
    assert own_work(work) is work
