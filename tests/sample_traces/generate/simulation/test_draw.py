"""Drawn durations: other seeds give other times, healthy jobs have no outlier."""

from pathlib import Path

import numpy as np
import pytest

from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.sample_traces.generate.tables.test_write import (
    NUM_MICROBATCHES,
    NUM_STEPS,
    compute_per_rank,
    made,
    rows,
)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("healthy") / "run")


def test_another_seed_gives_other_times(tmp_path: Path, healthy: Path) -> None:
    generate(SyntheticJob(16, 2, 2, NUM_STEPS, NUM_MICROBATCHES, seed=2), tmp_path / "run")
    assert not rows(tmp_path / "run", "steps").equals(rows(healthy, "steps"))


def test_a_healthy_run_has_no_outlier(healthy: Path) -> None:
    compute = compute_per_rank(healthy)
    assert np.abs(compute / np.median(compute) - 1).max() < 0.02
