"""Which ranks are lanes: choices around a rank, unknown layouts, unknown ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.view_state import parse_url
from app.views.timeline.lanes import MOST_AT_ONCE, Place, choose, known
from ingest.errors import UserError
from trace_hooks.layout import ParallelLayout


def place(rank, pp=None, dp=None, tp=None):
    return Place(rank, "h", pp, dp, None, tp, 0, 0, 0)


def test_choices_of_lanes():
    layout = ParallelLayout.from_sizes(pp=2, dp=2, tp=2)
    of_layout = {
        rank: place(rank, *(layout.coords(rank)[axis] for axis in ("pp", "dp", "tp")))
        for rank in range(8)
    }
    assert choose(of_layout, "pipeline", 5) == [1, 5]
    assert choose(of_layout, "tp", 5) == [4, 5]
    assert choose(of_layout, "dp", 5) == [5, 7]
    assert choose(of_layout, "default", 5) == [1, 4, 5]
    assert choose(of_layout, "default", None) == list(range(8))
    assert choose(of_layout, "all", None) == list(range(8))
    assert of_layout[5].label == "r5 pp1 dp0 tp1"


def test_an_unknown_layout_shows_all_and_unknown_ranks_are_explained():
    unknown = {rank: place(rank) for rank in range(100)}
    assert choose(unknown, "pipeline", 3) == list(range(64))
    assert known(unknown, [3, 200, 1]) == [3, 1]
    with pytest.raises(UserError, match="no rank 200 in this attempt; it has ranks 0 to 99"):
        known(unknown, [200])
    with pytest.raises(UserError, match="no rank 200"):
        choose(unknown, "default", 200)
    with pytest.raises(UserError, match="needs a rank"):
        choose(unknown, "dp", None)
    with pytest.raises(UserError, match="is not a choice"):
        choose(unknown, "diagonal", 1)


def test_lanes_of_a_host():
    places = {rank: replace(place(rank), host=f"h{rank // 4}") for rank in range(8)}
    assert choose(places, "host", 5) == [4, 5, 6, 7]
    places[5] = replace(places[5], host=None)
    with pytest.raises(UserError, match="host of rank 5 is not recorded"):
        choose(places, "host", 5)


def test_a_job_of_twelve_thousand_ranks_is_lanes_as_a_whole():
    view, problems = parse_url("/run/a/timeline", "ranks=0-12287")
    assert problems == []
    assert (
        len(view.ranks) == len(choose(dict.fromkeys(view.ranks, place(0)), "all", None)) == 12_288
    )


def test_an_unknown_coordinate_is_shared_with_nobody():
    assert place(0, pp=1, tp=0).shares(place(1, pp=1), "pp")
    assert not place(0, pp=1, tp=0).shares(place(1, pp=1), "pp", "tp")
    assert not place(0).shares(place(1), "pp")
    with pytest.raises(UserError, match="has no ranks"):
        choose({}, "default", None)
    assert len(choose({rank: place(rank) for rank in range(99)}, "default", None)) == MOST_AT_ONCE
