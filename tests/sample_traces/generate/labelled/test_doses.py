"""The dose of a fault that lengthens steps by a given factor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.labelled.doses import DOSES, dose_reaching, dosed, slowdown, step_ns

JOB = SyntheticJob(8, pp=2, tp=2, num_steps=8)


@pytest.mark.parametrize("least", DOSES.values())
def test_a_fault_gets_the_dose_that_reaches_it(least: float) -> None:
    fault = dosed(JOB, SyntheticFault.parse("slow_worker=5,from=2"), least)
    reached = slowdown(JOB, fault, step_ns(replace(JOB, faults=())))
    assert least <= reached <= 1 + (least - 1) * 1.1


def test_without_a_sufficient_dose_there_is_none() -> None:
    assert dose_reaching(lambda _: 1.0, 1.5) is None
