"""Heat maps: pooling keeps the extreme, windows, orders, the cell behind a block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.views.ranks.heat_map import (
    edges,
    furthest_cell,
    heat_map,
    pooled,
    row_marks,
    row_order,
    worst_cells,
)
from app.views.ranks.scales import IN_NOISE, NO_DATA
from ingest.errors import UserError
from tests.app.ranks_helpers import cells_of, places_of


def test_a_lone_straggler_stays_visible_in_any_size():
    code = np.full((1000, 700), IN_NOISE, dtype=np.uint8)
    code[613, 401] = 201
    for height, width in ((1, 1), (7, 5), (600, 400), (999, 699), (1000, 700)):
        found, rows, steps = pooled(code, height, width)
        assert found.shape == (height, width)
        (at,) = np.argwhere(found == 201)
        assert rows[at[0]] <= 613 < rows[at[0] + 1]
        assert steps[at[1]] <= 401 < steps[at[1] + 1]


def test_the_furthest_of_a_block_wins_whichever_side_it_is_on():
    cells = cells_of(np.array([[0.1, -0.4], [0.3, 0.0]]))
    drawn = heat_map(cells, height=1, width=1)
    assert drawn.code_HW[0, 0] == cells.code_RS[0, 1]
    assert drawn.code_HW[0, 0] % 2 == 0


def test_missing_cells_hide_nothing_and_are_no_value():
    deviation = np.array([[np.nan, np.nan, 0.3], [np.nan, np.nan, np.nan]])
    drawn = heat_map(cells_of(deviation), height=2, width=3)
    assert list(drawn.code_HW[1]) == [NO_DATA] * 3
    assert heat_map(cells_of(deviation), height=1, width=1).code_HW[0, 0] > IN_NOISE


@pytest.mark.parametrize(("count", "most"), [(10, 3), (3, 10), (1, 1), (12_288, 600)])
def test_blocks_cover_every_cell_once(count, most):
    result = edges(count, most)
    assert (result[0], result[-1]) == (0, count)
    assert len(result) - 1 == min(count, most)
    assert np.diff(result).min() >= 1
    assert np.diff(result).max() - np.diff(result).min() <= 1


def test_small_maps_carry_their_values_pooled_ones_do_not():
    cells = cells_of(np.array([[0.0, 0.2], [np.nan, 0.0]]))
    small = heat_map(cells).arrays()
    np.testing.assert_array_equal(small["value"], np.float32([1, 1.2, np.nan, 1]))
    assert "value" not in heat_map(cells, width=1).arrays()


def test_a_window_is_cut_out_and_one_outside_is_ignored():
    cells = cells_of(np.arange(60).reshape(6, 10) / 10)
    drawn = heat_map(cells, rows=(2, 3), steps=(104, 105))
    assert list(drawn.rank_R) == [2, 3]
    assert (list(drawn.first_W), list(drawn.last_W)) == ([104, 105], [104, 105])
    np.testing.assert_array_equal(drawn.code_HW, cells.code_RS[2:4, 4:6])
    assert heat_map(cells, steps=(500, 600)).all_steps == (100, 109)
    assert len(heat_map(cells, steps=(500, 600)).first_W) == 10


def test_steps_with_gaps_keep_their_numbers():
    deviation = np.zeros((4, 5))
    deviation[2, 4], deviation[1, 1] = 0.4, 0.3
    steps = np.array([5, 6, 7, 8, 30_000_000])
    cells = replace(cells_of(deviation), steps_S=steps)
    drawn = heat_map(cells)
    assert (list(drawn.columns_W), list(drawn.last_W)) == ([0, 1, 2, 3, 4, 5], list(steps))
    drawn = heat_map(cells, width=2, steps=(7, 30_000_000))
    assert list(drawn.columns_W) == [0, 1, 3]
    assert (list(drawn.first_W), list(drawn.last_W)) == ([7, 8], [7, 30_000_000])
    assert furthest_cell(cells, rows=(0, 3), steps=(9, 10**9)).step == 30_000_000
    assert [(cell.rank, cell.step) for cell in worst_cells(cells)] == [(2, 30_000_000), (1, 6)]
    assert list(heat_map(cells, steps=(1000, 2000)).first_W) == list(steps), "none of those"


def test_orders():
    places = places_of(8, per_host=1, pp=2, tp=2)
    places.hosts[:] = ["n10", "n9", "n1", "n2", "n3", "n4", "n5", "n6"]
    assert list(row_order("host", places)) == [2, 3, 4, 5, 6, 7, 1, 0]
    places.coords["pp"][:] = [1, 1, 1, 1, 0, 0, 0, 0]
    assert list(row_order("place", places)) == [4, 5, 6, 7, 0, 1, 2, 3]
    assert row_marks("place", places) == [(0, "pp 0"), (4, "pp 1")]
    assert row_marks("rank", places) == []
    assert row_marks("host", places)[:2] == [(0, "n1"), (1, "n2")]
    with pytest.raises(UserError, match="rows cannot be ordered by 'size'"):
        row_order("size", places)


def test_hosts_of_any_names_have_an_order():
    names = ["gpu-10", "gpu-1b", "a/1", "gpu-1", "", "gpu-1-2", "node\u00b2", "7", "gpu-9", "host"]
    places = places_of(len(names), per_host=1)
    places.hosts[:] = names
    ordered = [names[row] for row in row_order("host", places)]
    assert ordered == [
        "",
        "7",
        "a/1",
        "gpu-1",
        "gpu-1-2",
        "gpu-1b",
        "gpu-9",
        "gpu-10",
        "host",
        "node\u00b2",
    ]


@pytest.mark.parametrize("size", [(0, 10), (10, 0), (10_000, 10_000)])
def test_a_size_that_cannot_be_drawn_is_a_sentence(size):
    with pytest.raises(UserError, match="cannot be drawn; request a smaller one"):
        heat_map(cells_of(np.zeros((2, 2))), height=size[0], width=size[1])


def test_the_cell_behind_a_block_is_the_one_it_is_coloured_by():
    deviation = np.zeros((20, 30))
    deviation[13, 21] = -0.45
    deviation[14, 20] = 0.3
    cells = cells_of(deviation)
    furthest = furthest_cell(cells, rows=(10, 19), steps=(115, 129))
    assert (furthest.rank, furthest.step, furthest.code) == (13, 121, cells.code_RS[13, 21])
    assert furthest.value == pytest.approx(0.55)
    assert furthest_cell(cells, rows=(14, 19), steps=(115, 129)).rank == 14


def test_worst_cells_are_those_beyond_noise_worst_first():
    deviation = np.zeros((20, 30))
    deviation[3, 4], deviation[5, 6], deviation[7, 8] = 0.2, -0.4, 0.3
    deviation[0, 0] = np.nan
    worst = worst_cells(cells_of(deviation))
    assert [(cell.rank, cell.step) for cell in worst] == [(5, 106), (7, 108), (3, 104)]
    assert [cell.rank for cell in worst_cells(cells_of(deviation), steps=(107, 110))] == [7]
    assert worst_cells(cells_of(np.zeros((3, 3)))) == []
    assert worst_cells(cells_of(np.zeros((3, 0)))) == []
