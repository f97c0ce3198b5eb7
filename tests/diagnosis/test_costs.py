"""What findings cost: measured against steps without them, divided, or estimated."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.cost_text import cost_text, share_text
from diagnosis.costs import with_costs
from diagnosis.findings import ESTIMATED, MEASURED, Cost, Diagnosis, Finding, Verdict, cost_of
from diagnosis.statistics.rank_tables import Floats
from tests.diagnosis.test_one_cause import finding

STEPS = 100
STEP_S = np.arange(STEPS)


def step_ms(*longer: tuple[int, int, float], noise: float = 0.01) -> Floats:
    made = 100.0 * np.exp(np.random.default_rng(2).normal(0.0, noise, STEPS))
    for first, last, ms in longer:
        made[first : last + 1] += ms
    return made


def costs(step_ms_S: Floats, *findings: Finding) -> list[Cost]:
    diagnosis = with_costs(Diagnosis((Verdict("x", findings),)), STEP_S, step_ms_S)
    by_steps = {f.first_step: f.cost for f in diagnosis.findings}
    measured = [by_steps[f.first_step] for f in findings]
    return [cost for cost in measured if cost is not None]


def test_measured_against_steps_without_it() -> None:
    (cost,) = costs(step_ms((40, 69, 18.0)), finding(3, 40, 69, 2.0))
    assert cost.basis == MEASURED
    assert cost.ms_per_step == pytest.approx(18.0, abs=1.0)
    assert cost.share == pytest.approx(18 / 118, abs=0.01)
    assert cost.rank_hours == pytest.approx(cost.ms_per_step * 30 * 16 / 3.6e6, abs=1e-5)


def test_steps_of_two_findings_are_divided() -> None:
    both = costs(step_ms((40, 69, 40.0)), finding(3, 40, 69, 30.0), finding(5, 41, 69, 10.0))
    assert [cost.ms_per_step for cost in both] == pytest.approx([30.0, 10.0], abs=1.5)


def test_where_one_acts_alone_it_is_measured_there() -> None:
    made = step_ms((30, 69, 20.0), (50, 69, 30.0))
    first, _ = costs(made, finding(3, 30, 69, 5.0), finding(5, 50, 69, 5.0))
    assert first.ms_per_step == pytest.approx(20.0, abs=1.5)


def test_what_always_acts_with_another_is_measured_against_the_other_alone() -> None:
    made = step_ms((30, 79, 48.0), (50, 79, 25.0))
    found = (finding(3, 30, 79, 48.0), finding(5, 50, 79, 72.0))
    first, second = costs(made, *found)
    assert first.ms_per_step == pytest.approx(48.0, abs=1.5)
    assert second.ms_per_step == pytest.approx(25.0, abs=1.5)
    diagnosis = with_costs(Diagnosis((Verdict("x", found),)), STEP_S, made)
    sentence = diagnosis.findings[-1].evidence[-1].sentence
    assert "20 steps near it with the other findings alone 148 ms." in sentence


def test_from_the_first_step_on_it_is_estimated() -> None:
    (cost,) = costs(step_ms((0, 99, 18.0)), finding(3, 0, 99, 12.0))
    assert (cost.basis, cost.ms_per_step) == (ESTIMATED, 12.0)


def test_below_the_noise_it_is_estimated() -> None:
    (cost,) = costs(step_ms((60, 64, 1.0), noise=0.2), finding(3, 60, 64, 3.0))
    assert (cost.basis, cost.ms_per_step) == (ESTIMATED, 3.0)


def test_a_delay_that_costs_the_job_nothing_costs_nothing() -> None:
    (cost,) = costs(step_ms(), finding(3, 40, 69, 20.0))
    assert cost.basis == MEASURED
    assert cost.ms_per_step < 1.0


def test_what_the_detector_measured_stays() -> None:
    given = Cost(7.0, 100.0, 30, 16, MEASURED)
    assert costs(step_ms((40, 69, 18.0)), finding(3, 40, 69, cost=given)) == [given]


@pytest.mark.parametrize("basis", [MEASURED, ESTIMATED])
def test_hours_are_those_of_the_steps_that_were_recorded(basis: str) -> None:
    """Of a log of every tenth step, whichever of both a detector counts."""
    given = finding(3, 400, 690, cost=Cost(7.0, 100.0, 291, 16, basis))
    diagnosis = Diagnosis((Verdict("x", (given,)),))
    (only,) = with_costs(diagnosis, 10 * STEP_S, step_ms((40, 69, 18.0))).findings
    assert only.cost is not None
    assert only.cost.num_steps == 30


def test_the_sentence_and_the_evidence() -> None:
    made = step_ms((40, 69, 18.0))
    diagnosis = with_costs(Diagnosis((Verdict("x", (finding(3, 40, 69),)),)), STEP_S, made)
    (only,) = diagnosis.findings
    assert only.text.startswith("It was slow. Steps took 18 ms longer for it, 15 % of their time.")
    assert "steps near it without any finding" in only.evidence[-1].sentence
    assert cost_text(Cost(5.0, 100.0, 3, 8), ongoing=True) == (
        "Steps take about 5.0 ms longer for it, 5 % of their time."
    )


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0 %"), (0.004, "0.4 %"), (0.014, "1 %"), (0.5, "50 %")]
)
def test_shares(share: float, text: str) -> None:
    assert share_text(share) == text


def test_an_estimate_is_a_part_of_the_step() -> None:
    assert cost_of(float("nan"), 100.0, 3, 8) is None
    assert cost_of(5.0, 0.0, 3, 8) is None
    whole = cost_of(500.0, 100.0, 3, 8)
    assert whole is not None
    assert whole.share == 1.0
