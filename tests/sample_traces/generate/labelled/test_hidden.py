"""Launch skew is hidden in the tables where collectives are seen as their tail alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.doses import dosed
from sample_traces.generate.labelled.hidden import is_hidden, of_the_job
from sample_traces.generate.labelled.labels import label_of

DP8 = SyntheticJob(8, pp=1, tp=1, num_steps=40)
PP4 = SyntheticJob(4, pp=4, tp=1, num_steps=40)


@pytest.mark.parametrize("job", [DP8, PP4])
@pytest.mark.parametrize(("hides", "hidden"), [("", False), ("compute", True), ("rest", True)])
def test_time_before_a_collective_shows_only_where_its_waiting_is_recorded(
    job: SyntheticJob, hides: str, hidden: bool
) -> None:
    fault = SyntheticFault("launch_skew", None, 50.0, 10)
    assert is_hidden(replace(job, hides=hides), fault) == hidden


def test_other_faults_have_labels_of_their_own() -> None:
    assert not is_hidden(replace(DP8, hides="rest"), SyntheticFault("slow_worker", 3, 2.0, 10))


@pytest.mark.parametrize(
    ("least", "steps", "why_not"),
    [
        (1.5, (10, None), ""),
        (1.15, (10, None), ""),
        (1.15, (10, 20), "the timers do not show it, and steps are hardly longer"),
        (1.5, (10, 20), ""),
        (1.5, (0, None), "acts from the first steps on, and its own timer does not show it"),
    ],
)
def test_the_job_is_expected_to_be_called_slower_where_it_clearly_is(
    least: float, steps: tuple[int, int | None], why_not: str
) -> None:
    job = replace(DP8, hides="rest")
    fault = dosed(job, SyntheticFault("launch_skew", None, 10.0, *steps), least)
    job = replace(job, faults=(fault,))
    label = of_the_job(job, fault, label_of(job, fault))
    assert (label.kinds, label.why_not) == (("launch_skew", "step_regression"), why_not)
