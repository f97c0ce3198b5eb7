"""late_arrival on hand-built counts of a profile of one step."""

from __future__ import annotations

import pyarrow as pa
import pytest

from diagnosis.detectors.late_arrival import at_least, detect
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)


def judged(
    last: dict[int, int], caused_ms: dict[int, float], ranks: int = 8, steps: int = 1
) -> Verdict | None:
    counts = [
        {
            "rank": rank,
            "num_instances": 10,
            "num_last": last.get(rank, 0),
            "chance": 1 / 8,
            "wait_caused_ms": caused_ms.get(rank, 0.0),
            "wait_ms": 5.0,
        }
        for rank in range(ranks)
    ]
    tables = phase_tables(DP8, steps, lambda rank, step: {})
    return detect({**tables, "late_counts": pa.Table.from_pylist(counts)}, attempt=0)


def test_the_rank_that_comes_last_again_and_again() -> None:
    verdict = judged({7: 7, 2: 3}, {7: 160.0, 2: 9.0})
    assert verdict is not None
    (finding,) = verdict.findings
    assert (finding.kind, [place.rank for place in finding.culprits]) == ("slow_worker", [7])
    assert finding.confidence == "low"
    assert "7 of 10 collectives in step 0; 7 ranks wait" in finding.text
    assert finding.cost is not None
    assert finding.cost.share == pytest.approx(160 / (7 * 200), abs=1e-4)


@pytest.mark.parametrize(
    ("last", "caused_ms"),
    [
        ({7: 2, 2: 3}, {7: 160.0, 2: 9.0}),  # one long wait
        ({7: 7, 2: 3}, {7: 8.0, 2: 1.0}),  # next to nothing
        ({7: 7, 2: 3}, {7: 80.0, 2: 90.0}),  # others cause as much
        ({}, {}),
    ],
)
def test_a_healthy_profile_names_nobody_and_proves_nothing(
    last: dict[int, int], caused_ms: dict[int, float]
) -> None:
    verdict = judged(last, caused_ms)
    assert verdict is not None
    assert (verdict.findings, verdict.checked) == ((), None)
    assert "by chance" in verdict.not_enough[0].missing


def test_some_ranks_of_a_job_and_long_runs_are_not_judged_by_it() -> None:
    part = judged({1: 10}, {1: 100.0}, ranks=2)
    assert part is not None
    assert "2 of 8 ranks" in part.not_enough[0].missing
    assert judged({7: 7}, {7: 160.0}, steps=4) is None


def test_the_binomial_tail() -> None:
    assert at_least(0, 5, 0.3) == pytest.approx(1)
    assert at_least(2, 2, 0.5) == pytest.approx(0.25)
    assert at_least(3, 5, 0.0) == 0.0
    assert at_least(3, 5, 1.0) == 1.0
    assert at_least(0, 5, 1.0) == 1.0
    assert at_least(5_000, 10_000, 0.5) == pytest.approx(0.504, abs=0.001)
    assert 0.0 < at_least(900, 10_000, 0.08) < 0.001
