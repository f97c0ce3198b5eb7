"""step_regression of the whole job: steps longer than before, and nobody named."""

from __future__ import annotations

import pytest

from diagnosis.detectors.job_slower import detect
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

DP8 = ParallelLayout.from_sizes(dp=8)
STEPS, FROM = 80, 40


@pytest.mark.parametrize("ms", [20.0, 100.0])
def test_all_ranks_longer_since_a_step(ms: float) -> None:
    def phases(rank: int, step: int) -> dict[str, float]:
        return {} if step < FROM else {"step_ms": 200.0 + ms, "data_ms": 2.0 + ms}

    (finding,) = detect(phase_tables(DP8, STEPS, phases), attempt=0).findings
    assert (finding.kind, finding.culprits, finding.ongoing) == ("step_regression", (), True)
    assert abs(finding.first_step - FROM) <= 2
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(ms, rel=0.05)
    assert "Steps are longer since step" in finding.text
    assert "most of it lies in waiting for data" in finding.text
    assert finding.text.endswith("no finding on a rank, stage or link explains most of it.")


def test_where_waits_are_hidden_it_says_so() -> None:
    """Rank 3 is late in every fourth step, another time: the others' compute takes the wait."""

    def phases(rank: int, step: int) -> dict[str, float]:
        late = 60.0 if step % 4 == rank % 4 else 0.0
        longest = 60.0
        more = 40.0 if step >= FROM else 0.0
        compute = 70.0 + (longest - late if rank < 8 else 0.0) + more
        return {
            "step_ms": 75.0 + longest + more,
            "data_ms": 2.0 + (late if rank in (step % 4,) else 0.0),
            "compute_ms": compute if rank == step % 4 else 70.0 + longest + more,
            "comm_ms": 3.0,
        }

    (finding,) = detect(phase_tables(DP8, STEPS, phases), attempt=0).findings
    assert "ranks wait for each other inside the timer of compute" in finding.text


def test_it_does_not_deny_what_is_too_short_for_a_finding() -> None:
    """Fifteen steps are a fifth longer: no finding, and not in order either."""

    def phases(rank: int, step: int) -> dict[str, float]:
        return {"step_ms": 240.0} if FROM <= step < FROM + 15 else {}

    verdict = detect(phase_tables(DP8, STEPS, phases), attempt=0)
    assert verdict.findings == ()
    assert verdict.checked is not None
    assert "20 steps or more in a row" in verdict.checked
    assert "3 by 25 %" in verdict.checked


def test_the_numbers_are_those_of_the_steps() -> None:
    """Four long steps of which one is far longer, compared with those around them."""
    long = {FROM: 300.0, FROM + 1: 300.0, FROM + 2: 300.0, FROM + 3: 900.0}

    def phases(rank: int, step: int) -> dict[str, float]:
        return {"step_ms": long[step]} if step in long else {}

    (finding,) = detect(phase_tables(DP8, STEPS, phases), attempt=0).findings
    sentence = finding.evidence[0].sentence
    assert sentence.startswith("Steps take 300 ms in steps 40 to 43, a mean without the longest")
    assert sentence.endswith("200 ms is usual before or around them.")


def test_a_steady_job_has_none() -> None:
    verdict = detect(phase_tables(DP8, STEPS, lambda r, s: {}), attempt=0)
    assert verdict.findings == ()
    assert verdict.checked is not None


def test_three_steps_are_too_few() -> None:
    verdict = detect(phase_tables(DP8, 3, lambda r, s: {}), attempt=0)
    assert "3 finished steps are too few" in verdict.not_enough[0].missing
