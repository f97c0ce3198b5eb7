"""Two dashboards on one growing run, of which the one that indexes is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.dashboards import measured


@pytest.mark.long
@pytest.mark.kill
def test_the_dashboard_that_is_left_takes_over_and_shows_what_is_new(tmp_path: Path) -> None:
    assert measured(tmp_path, minutes=0.2, num_kills=1, num_dashboards=2) == []
