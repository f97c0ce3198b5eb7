"""What other schedules would give the published jobs, and jobs whose times are known."""

from __future__ import annotations

import pytest

from diagnosis.whatif.analysis import prepare
from diagnosis.whatif.operations import NotAnswerable, dense
from diagnosis.whatif.schedules.measured import Measured, measured
from diagnosis.whatif.schedules.predict import NAMES, mean_replay, plan_for, predict
from sample_traces.generate.straggler_trace import MegatronJob
from tests.whatif_traces import generated, needs_traces, published

SCHEDULES = ("1f1b", "gpipe", "interleaved", "breadth-first", "depth-first", "zb-h1")
SPANS_S = {
    "ST": (2.011, 2.011, 1.696, 1.696, 1.811, 1.580),
    "SE": (8.942, 8.563, 8.190, 8.127, 8.900, 7.949),
    "AR": (45.49, 47.13, 45.29, 46.21, 45.47, 45.29),
}
BUBBLES = {
    "ST": (0.514, 0.514, 0.423, 0.423, 0.460, 0.381),
    "SE": (0.249, 0.239, 0.208, 0.206, 0.253, 0.192),
    "AR": (0.191, 0.196, 0.162, 0.165, 0.178, 0.153),
}
"""Of SCHEDULES, by an implementation that is not ours."""


def of(trial: str) -> Measured:
    return measured(prepare(dense(*published(trial))))


@needs_traces
@pytest.mark.parametrize("trial", SPANS_S)
def test_published_jobs_under_other_schedules(trial: str) -> None:
    times = of(trial)
    wanted = zip(SCHEDULES, SPANS_S[trial], BUBBLES[trial], strict=True)
    for name, span_s, bubble in wanted:
        found = predict(times, name)
        assert found.span_s == pytest.approx(span_s, rel=0.005), name
        assert found.bubble == pytest.approx(bubble, abs=0.0015), name


@pytest.fixture(scope="module")
def job() -> Measured:
    return measured(prepare(dense(*generated(MegatronJob(pp=4, dp=2, num_steps=4)))))


@pytest.mark.parametrize("name", NAMES)
def test_a_prediction_says_what_it_assumes(job: Measured, name: str) -> None:
    found = predict(job, name)
    if found.reason:
        assert found.span_s is None
        return
    assert found.low_s is not None
    assert found.high_s is not None
    assert found.span_s is not None
    assert found.low_s <= found.span_s <= found.high_s or found.low_s == found.high_s
    assert any("weights" in text for text in found.assumptions) == plan_for(job, name).is_split
    assert any("chunks" in text for text in found.assumptions) == (plan_for(job, name).chunks > 1)
    assert mean_replay(job, name).span_s <= found.high_s * 1.05


def test_memory_follows_from_what_is_held(job: Measured) -> None:
    found = predict(job, "1f1b", memory_bytes=1e9)
    assert found.memory_bytes == 4e9
    assert not any("memory" in text for text in found.assumptions)


def test_one_stage_has_nothing_to_schedule() -> None:
    with pytest.raises(NotAnswerable, match="one pipeline stage"):
        measured(prepare(dense(*generated(MegatronJob(pp=1, dp=4, num_steps=3)))))
