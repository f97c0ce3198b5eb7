"""Running medians: levels that change for good, and single steps that do not."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.statistics.running_median import running_medians


def test_a_lasting_change_moves_the_level_and_spikes_do_not() -> None:
    level = np.where(np.arange(40) < 20, 1.0, 2.0)
    spiky = level.copy()
    spiky[[7, 8, 30]] = 9.0
    assert running_medians(spiky) == pytest.approx(level)
    assert running_medians(np.stack([spiky, level])) == pytest.approx(np.stack([level, level]))


def test_unknown_steps_are_left_out() -> None:
    values = np.array([1.0, np.nan, 3.0])
    assert running_medians(values).tolist() == [2.0, 2.0, 2.0]
    assert np.isnan(running_medians(np.full(3, np.nan))).all()
    assert running_medians(np.empty(0)).size == 0
