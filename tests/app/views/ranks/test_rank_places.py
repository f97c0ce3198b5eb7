"""Ranks with their hosts and coordinates; unknown ones are -1."""

from __future__ import annotations

from app.runs.hub import Hub
from app.views.ranks.rank_places import AXES, places


def test_ranks_are_in_order_with_a_coordinate_on_each_axis(hub: Hub) -> None:
    ranks = places(hub.run("job"))
    assert ranks.rank_R.tolist() == [0, 1]
    assert set(ranks.coords) == set(AXES)
    assert all(len(index_R) == 2 and (index_R >= -1).all() for index_R in ranks.coords.values())
    assert len(ranks.hosts) == 2


def test_an_unknown_attempt_has_no_ranks(hub: Hub) -> None:
    ranks = places(hub.run("job"), attempt=9)
    assert not ranks.rank_R.size
    assert not ranks.has_layout
