"""gc_pauses on hand-built tables: pauses that move, pauses of one rank, and healthy collections."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.detectors.gc_pauses import detect
from diagnosis.findings import Verdict
from diagnosis.statistics.units import in_ms
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS, FROM = 30, 8


def judged(phases: Phases) -> Verdict:
    return detect(phase_tables(DP8, STEPS, phases), attempt=0)


@pytest.mark.parametrize("ms", [100.0, 30.0, 16.0])
def test_pauses_that_move_name_no_rank(ms: float) -> None:
    hit = np.random.default_rng(4).integers(8, size=STEPS)

    def phases(rank: int, step: int) -> dict[str, float]:
        return {"gc_ms": ms} if step >= FROM and hit[step] == rank else {}

    (finding,) = judged(phases).findings
    assert (finding.kind, finding.culprits, finding.first_step) == ("gc_pauses", (), FROM)
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(ms)
    assert "one rank after the other" in finding.title
    loss = f"Each step loses {in_ms(ms)} to the longest garbage collection"
    assert finding.text.startswith(
        f"Each step loses time to the longest garbage collection since step {FROM}."
    )
    assert finding.evidence[0].sentence == f"{loss} in steps {FROM} to {STEPS - 1}."


def test_pauses_of_one_rank_name_it() -> None:
    (finding,) = judged(lambda r, s: {"gc_ms": 40.0} if r == 3 and s >= FROM else {}).findings
    assert [place.rank for place in finding.culprits] == [3]
    assert finding.victims == (0, 1, 2, 4, 5, 6, 7)


def test_collections_now_and_then_or_short_are_healthy() -> None:
    verdict = judged(lambda r, s: {"gc_ms": 60.0 if s % 10 == 4 and r == 3 else 3.0})
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_without_a_collection_there_is_no_verdict() -> None:
    verdict = judged(lambda r, s: {})
    assert verdict.checked is None
    assert "No garbage collection was recorded" in verdict.not_enough[0].missing
