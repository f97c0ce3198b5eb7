"""Levels of tensor statistics."""

from __future__ import annotations

import pytest

from app.views.model.tensor_levels import STATISTICS, statistic_of
from ingest.errors import UserError


def test_every_alarm_level_names_its_source() -> None:
    for statistic in STATISTICS.values():
        assert all(level.source and level.text for level in statistic.levels), statistic.name
    assert statistic_of("gradient", "rms").levels_of("gradient")
    assert not statistic_of("residual", "rms").levels_of("residual")
    with pytest.raises(UserError, match="heads has no statistic 'rms'"):
        statistic_of("heads", "rms")
