"""The heat map of hosts: one row per host, pooled to the furthest rank."""

from __future__ import annotations

import numpy as np

from app.views.ranks.grid import grid
from app.views.ranks.host_map import NO_RANK, host_map
from app.views.ranks.scales import IN_NOISE, NO_DATA
from tests.app.ranks_helpers import cells_of


def test_hosts_have_a_row_each_and_places_without_a_rank_are_nobody():
    deviation = np.zeros((10, 20))
    deviation[9] = 0.4
    drawn = host_map(grid(cells_of(deviation, per_host=4)))
    assert drawn.hosts == ["host-0", "host-1", "host-2"]
    assert drawn.code_HP.shape == (3, 4)
    assert list(drawn.rank_HP[2]) == [8, 9, NO_RANK, NO_RANK]
    assert list(drawn.code_HP[2] > IN_NOISE) == [False, True, False, False]
    assert list(drawn.code_HP[2, 2:]) == [NO_DATA] * 2


def test_pooled_hosts_show_the_furthest_rank_and_whose_it_is():
    deviation = np.zeros((40, 20))
    deviation[26] = 0.4
    drawn = host_map(grid(cells_of(deviation, per_host=4)), height=3)
    assert drawn.code_HP.shape == (3, 4)
    (at,) = np.argwhere(drawn.code_HP > IN_NOISE)
    assert drawn.rank_HP[tuple(at)] == 26
