"""Against a baseline: what is equally slow everywhere."""

from __future__ import annotations

import pytest

from diagnosis.detectors.against_baseline import compare
from diagnosis.findings import Verdict
from tests.diagnosis.work_tables import Phases, phase_tables
from trace_hooks.layout import ParallelLayout

STEPS = 20


def judged(now: Phases, dp: int = 8, seed: int = 7, steps: int = STEPS) -> Verdict:
    good = phase_tables(ParallelLayout.from_sizes(dp=8), STEPS, lambda rank, step: {})
    run = phase_tables(ParallelLayout.from_sizes(dp=dp), steps, now, seed=seed)
    return compare(run, good, attempt=0)


@pytest.mark.parametrize("ms", [100.0, 30.0])
def test_communication_that_takes_longer_everywhere(ms: float) -> None:
    verdict = judged(lambda rank, step: {"step_ms": 200 + ms, "comm_ms": 40 + ms})
    (finding,) = verdict.findings
    assert (finding.kind, finding.culprits) == ("comm_regression", ())
    assert finding.cost is not None
    assert finding.cost.ms_per_step == pytest.approx(ms, abs=3)


def test_waiting_for_one_rank_is_no_slow_communication() -> None:
    """All others communicate longer, the late one does not: steps are longer, transfers are not."""

    def phases(rank: int, step: int) -> dict[str, float]:
        late = rank == 3
        return {
            "step_ms": 260.0,
            "comm_ms": 40.0 if late else 100.0,
            "compute_ms": 210.0 if late else 150.0,
        }

    assert [finding.kind for finding in judged(phases).findings] == ["step_regression"]


@pytest.mark.parametrize("seed", range(5))
def test_a_run_like_the_baseline(seed: int) -> None:
    verdict = judged(lambda rank, step: {}, seed=seed)
    assert verdict.findings == ()
    assert verdict.checked is not None
    assert verdict.checked.startswith("Against the baseline: steps take 200 ms")


def test_another_job_or_too_few_steps_are_not_compared() -> None:
    assert "4 ranks and the baseline 8" in judged(lambda r, s: {}, dp=4).not_enough[0].missing
    assert "need 4 finished steps" in judged(lambda r, s: {}, steps=3).not_enough[0].missing
