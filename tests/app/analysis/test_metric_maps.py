"""Maps of metrics: read once, cut out of what is cached, left by whoever goes."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from app.analysis import metric_maps
from app.analysis.metric_maps import Maps
from app.runs.hub import Hub
from app.views.ranks.scales import METRICS
from ingest.stopping import Interrupted, Stop
from tests.app.ranks_helpers import slow_in_one_step

SLOWDOWN = METRICS["slowdown"]


@pytest.fixture
def maps(tmp_path):
    slow_in_one_step(tmp_path / "re", slow=1)
    with closing(Hub(tmp_path)) as hub:
        yield Maps(hub)


def test_who_leaves_while_a_whole_map_is_read_stops_it_and_the_next_has_it(maps, monkeypatch):
    read, given = metric_maps.cells, []

    def reading(run, metric, attempt, steps, stop, step_ms):
        given.append(stop)
        if stop.called:
            raise Interrupted("left")
        return read(run, metric, attempt, steps, stop, step_ms)

    monkeypatch.setattr(metric_maps, "cells", reading)
    left, stays = Stop(), Stop()
    left()
    with pytest.raises(Interrupted):
        maps.whole("re", SLOWDOWN, None, stop=left)
    whole, is_cut = maps.whole("re", SLOWDOWN, None, stop=stays)
    assert maps.whole("re", SLOWDOWN, None, stop=stays)[0] is whole
    assert (given, is_cut) == ([left, stays], False)
    assert maps.some("re", SLOWDOWN, None, (2, 5)).value_RS.base is not None
    assert len(given) == 2, "cut out of what is kept"


def test_a_part_of_a_large_map_is_that_of_the_whole_and_leaves_it_unread(maps, monkeypatch):
    monkeypatch.setattr(metric_maps, "_SMALL", 8)
    part = maps.some("re", SLOWDOWN, None, (3, 5))
    assert maps.hub.cache.peek("re", ("map", "slowdown", None, None)) is None
    whole, _ = maps.whole("re", SLOWDOWN, None)
    assert part.steps_S.tolist() == [3, 5]
    assert np.array_equal(part.value_RS, whole.window((3, 5)).value_RS)


def test_the_newest_steps_are_shown_while_a_large_map_is_read(maps, monkeypatch):
    assert maps.part("re", SLOWDOWN, None) is None, "all of it is as quick"
    monkeypatch.setattr(metric_maps, "_AT_ONCE", 8)
    monkeypatch.setattr("app.views.ranks.metric_matrix.LAST_STEPS", 1)
    assert maps.part("re", SLOWDOWN, None).steps_S.tolist() == [5, 30_000_000]
    maps.whole("re", SLOWDOWN, None)
    assert maps.part("re", SLOWDOWN, None) is None, "the whole is there"


def test_of_a_map_too_large_to_hold_the_newest_or_the_requested_steps_are_read(maps, monkeypatch):
    monkeypatch.setattr("app.views.ranks.metric_matrix.MOST_CELLS", 8)
    newest, is_cut = maps.whole("re", SLOWDOWN, None)
    assert (newest.steps_S.tolist(), is_cut) == ([5, 30_000_000], True)
    assert maps.whole("re", SLOWDOWN, None, (5, 6))[0] is newest, "inside what is held"
    assert maps.whole("re", SLOWDOWN, None, (1, 2))[0].steps_S.tolist() == [1, 2]
