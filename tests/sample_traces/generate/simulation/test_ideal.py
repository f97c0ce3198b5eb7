"""S of a job: 1 where no operation is longer than its kind, more where one rank is slow."""

from __future__ import annotations

import pytest

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.simulation.ideal import true_S

SIZES = {"num_ranks": 8, "pp": 2, "tp": 2, "num_steps": 6}


def test_a_job_without_noise_loses_nothing() -> None:
    assert true_S(SyntheticJob(**SIZES, noise=0.0)) == pytest.approx(1, abs=0.02)


def test_a_slow_rank_costs_more_the_slower_it_is() -> None:
    slowdowns = [
        true_S(SyntheticJob(**SIZES, faults=(SyntheticFault.parse(f"slow_worker=5,x={x}"),)))
        for x in (1.3, 2.0)
    ]
    assert 1.05 < slowdowns[0] < slowdowns[1] < 2
