"""Evidence of a finding on late ranks about the time before it: later, earlier, as its peers."""

from __future__ import annotations

import pytest

from diagnosis.detectors.data_loader import detect
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

STEPS, FROM, RANK = 40, 10, 5


@pytest.mark.parametrize(
    ("before_ms", "sentence"),
    [
        (3.6, f"Before step {FROM} rank {RANK} came 1.8 % of a step later than its peers."),
        (-3.6, f"Before step {FROM} rank {RANK} came 1.8 % of a step earlier than its peers."),
        (0.04, f"Before step {FROM} rank {RANK} came when its peers did."),
        (-0.04, f"Before step {FROM} rank {RANK} came when its peers did."),
    ],
)
def test_the_evidence_says_that_a_rank_came_earlier_before(before_ms: float, sentence: str) -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        blocked_ms = 40.0 if step >= FROM else before_ms
        longer_ms = 40.0 if step >= FROM else max(before_ms, 0.0)
        cells = {"step_ms": 200 + longer_ms, "covered_ms": 195 + longer_ms}
        if rank != RANK:
            return {**cells, "comm_ms": 40 + longer_ms, "data_ms": 10.0}
        return {**cells, "comm_ms": 40 + longer_ms - blocked_ms, "data_ms": 10 + blocked_ms}

    layout = ParallelLayout.from_sizes(pp=2, dp=4, tp=2)
    tables = phase_tables(layout, STEPS, phases, noise=0.0)
    (finding,) = detect(tables, attempt=0).findings
    assert [place.rank for place in finding.culprits] == [RANK]
    assert finding.evidence[-1].sentence == sentence
