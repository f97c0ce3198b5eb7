"""The grid of ranks: one value per rank, its colour, its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.views.ranks.grid import UNKNOWN, grid, layout_arrays, layout_meta
from app.views.ranks.metric_matrix import Places
from app.views.ranks.rank_places import places
from app.views.ranks.scales import IN_NOISE, METRICS, NO_DATA
from ingest.run import open_run
from tests.app.ranks_helpers import cells_of, places_of
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout


def test_a_rank_has_the_median_of_its_slowdown_so_that_one_slow_step_colours_nothing():
    deviation = np.zeros((6, 20))
    deviation[2, 7] = 0.9
    deviation[4, 5:] = 0.3
    drawn = grid(cells_of(deviation))
    assert list(np.flatnonzero(drawn.code_R > IN_NOISE)) == [4]
    assert drawn.value_R[4] == pytest.approx(1.3)
    assert drawn.peers_R[4] == 1
    assert drawn.steps == (100, 119)


def test_a_rank_without_a_step_is_not_recorded():
    deviation = np.zeros((4, 5))
    deviation[1] = np.nan
    drawn = grid(cells_of(deviation))
    assert list(drawn.code_R) == [IN_NOISE, NO_DATA, IN_NOISE, IN_NOISE]
    assert np.isnan(drawn.value_R[1])


def test_one_step_alone_is_judged_by_more_than_3_mad():
    """Of this many single cells some lie beyond 3 MAD by chance."""
    deviation = np.random.default_rng(2).normal(scale=0.0148, size=(4000, 1))
    assert (grid(cells_of(deviation, spread=0.01)).code_R > IN_NOISE).sum() <= 2


def test_no_step_at_all():
    drawn = grid(cells_of(np.zeros((3, 0))))
    assert list(drawn.code_R) == [NO_DATA] * 3
    assert drawn.meta()["steps"] is None


def test_places_have_sizes_of_the_axes_and_unknown_ones_a_mark():
    arrays, meta = layout_arrays(places_of(16, pp=2, tp=2)), layout_meta(places_of(16, pp=2, tp=2))
    assert meta["axes"] == {"pp": 2, "dp": 4, "tp": 2}
    assert meta["reason"] is None
    assert set(arrays["cp"]) == {UNKNOWN}
    assert list(arrays["host"]) == [0] * 8 + [1] * 8


def test_groups_of_experts_are_marked_beside_the_axes(tmp_path):
    builder = RunBuilder(tmp_path, 8, ParallelLayout.from_sizes(pp=2, dp=4, ep=2))
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        found = places(run)
    arrays, meta = layout_arrays(found), layout_meta(found)
    assert meta["axes"] == {"pp": 2, "dp": 4}
    assert meta["experts"] == {"ep": 2}
    assert list(arrays["ep"]) == [0, 1] * 4
    assert list(arrays["ep_group"]) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert layout_meta(places_of(4))["experts"] == {}


def test_without_a_layout_the_reason_is_given():
    unknown = {axis: np.full(3, -1) for axis in ("pp", "dp", "cp", "tp")}
    meta = layout_meta(Places(np.arange(3), ["a", "a", "b"], unknown))
    assert meta["axes"] == {}
    assert "layout of this run is unknown" in meta["reason"]
    assert meta["hosts"] == ["a", "b"]


def waits_of(deviation):
    """Cells of a time in ms, with these deviations as a share of the step."""
    cells = cells_of(deviation, spread=0.02)
    return replace(cells, metric=METRICS["wait"], value_RS=200 + 1000 * deviation)


def test_times_are_judged_by_how_the_peers_means_differ():
    """Ten ranks wait differently every step, by 30 ms; one waits 20 ms longer in each of 100."""
    draw = np.random.default_rng(5)
    deviation = draw.normal(scale=0.03, size=(10, 100)).astype(np.float32)
    deviation[4] += 0.02
    assert list(np.flatnonzero(grid(waits_of(deviation)).code_R > IN_NOISE)) == [4]
    apart = deviation + np.linspace(-0.1, 0.1, 10)[:, None]  # roles: all differ, nobody is odd
    assert (grid(waits_of(apart)).code_R == IN_NOISE).all()
