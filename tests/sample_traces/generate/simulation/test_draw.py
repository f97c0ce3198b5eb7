"""Drawn durations: other seeds give other times, healthy jobs have no outlier."""

from pathlib import Path

import numpy as np

from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate
from tests.sample_traces.generate.generated import (
    NUM_MICROBATCHES,
    NUM_STEPS,
    compute_per_rank,
    rows,
)


def test_another_seed_gives_other_times(tmp_path: Path, healthy: Path) -> None:
    generate(SyntheticJob(16, 2, 2, NUM_STEPS, NUM_MICROBATCHES, seed=2), tmp_path / "run")
    assert not rows(tmp_path / "run", "steps").equals(rows(healthy, "steps"))


def test_a_healthy_run_has_no_outlier(healthy: Path) -> None:
    compute = compute_per_rank(healthy)
    assert np.abs(compute / np.median(compute) - 1).max() < 0.02
