"""Peers of ranks in whole matrices."""

from __future__ import annotations

import numpy as np
import pytest

from app.views.ranks.peers import group_ids, own_past, peers_median, spread, spread_within_step


def test_group_ids_and_own_past():
    assert list(group_ids(np.array([0, 0, 1]), np.array([1, 1, 1]))) == [0, 0, 1]
    past = own_past(np.float32([1, np.nan, 2, 3, 4, 5]))
    np.testing.assert_array_equal(past, np.float32([np.nan, np.nan, np.nan, np.nan, 2, 2.5]))


def test_one_slow_rank_of_four_does_not_widen_the_noise():
    value = np.tile(np.float32([[100], [101], [99], [160]]), (1, 20))
    peers, group = peers_median(value, np.zeros(4, int), np.zeros(4, int))
    deviation = value / peers - 1
    assert deviation[3] == pytest.approx([0.6] * 20)
    assert (spread(deviation, group) < 0.02).all()
    assert (spread_within_step(deviation, group) < 0.02).all()
