"""Statistics of a synthetic model: healthy ones are finite, faults show in their steps only."""

from __future__ import annotations

import numpy as np
import pytest

from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.model_health import GROUPS, HEALTH_EFFECTS, model_health

SIZES = {"num_ranks": 8, "pp": 2, "tp": 2, "num_steps": 20, "statistics": 1}


def test_healthy_training_is_the_same_for_equal_seeds() -> None:
    first, second = (model_health(SyntheticJob(**SIZES)) for _ in range(2))
    assert np.array_equal(first.logit_LHS, second.logit_LHS)
    assert all(np.isfinite(first.ratio[group]).all() for group in GROUPS)


@pytest.mark.parametrize("kind", HEALTH_EFFECTS)
def test_a_fault_shows_from_its_first_step_on(kind: str) -> None:
    fault = SyntheticFault.parse(f"{kind},from=10")
    healthy = model_health(SyntheticJob(**SIZES))
    faulty = model_health(SyntheticJob(**SIZES, faults=(fault,)))
    arrays = [
        (getattr(healthy, name), getattr(faulty, name)) for name in ("logit_LHS", "entropy_LHS")
    ]
    for name in ("output_zero", "gradient_zero", "ratio"):
        arrays += zip(getattr(healthy, name).values(), getattr(faulty, name).values(), strict=True)
    assert all(np.array_equal(one[..., :10], other[..., :10]) for one, other in arrays)
    assert any(not np.array_equal(one, other) for one, other in arrays)
