"""A tile as it is sent: references into spans and waits, and what it says of its lanes."""

from __future__ import annotations

import numpy as np
import pytest

from app.views.timeline.lod import Rectangles
from app.views.timeline.span_table import Instances, SpanTable, StepWindows
from app.views.timeline.tile_arrays import COMM, HOST, WAIT, line, made_of, tile_meta
from app.views.timeline.window import Window, extent
from tests.app.views.timeline.shifted_run import made, places, shifted_run
from tests.runs_builder import T0, US


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with shifted_run(tmp_path_factory.mktemp("arrays") / "run") as opened:
        yield opened


def test_references_lead_to_the_spans(run):
    picture = made(run, Window(0, 100 * US))
    arrays = picture.arrays
    (i,) = np.flatnonzero((arrays["lane"] == 0) & (arrays["row"] == COMM))
    span = arrays["ref"][i]
    assert arrays["span_start"][span] == 20 * US
    assert arrays["span_seq"][span] == 0
    assert picture.meta["groups"][arrays["span_group"][span]] == "7"
    assert arrays["span_cpu"][span] == 1000
    marks = [(arrays["span_lane"][s], arrays["span_microbatch"][s]) for s in arrays["frame"]]
    assert sorted(marks) == [(0, 0), (0, 0), (1, 0), (1, 0)]


def test_a_wait_refers_to_its_collective(run):
    arrays = made(run, Window(0, 200 * US)).arrays
    refs = arrays["ref"][arrays["row"] == WAIT]
    assert arrays["wait_seq"][refs].tolist() == [0, 1]
    assert arrays["wait_rank"][refs].tolist() == [1, 1]
    assert (arrays["wait_start"][refs] / US).tolist() == [20, 120]


def test_lane_row_and_level_come_back_from_the_number_of_a_line():
    lanes, levels = np.array([0, 2, 63]), np.array([7, 0, 3])
    none = np.full(3, -1)
    begin = np.array([1000, 2000, 3000])
    rects = Rectangles(
        line(lanes, HOST, levels), begin, begin + 50, none + 2, none, none + 3, none + 41, 9.0
    )
    empty = StepWindows.of_records([], (0, 1), (0, 1))
    tile = made_of(rects, SpanTable.none(), none[:0], Instances.none(), empty, 900)
    arrays = tile.arrays
    assert arrays["lane"].tolist() == lanes.tolist()
    assert (set(arrays["row"].tolist()), arrays["level"].tolist()) == ({HOST}, levels.tolist())
    assert (arrays["start"].tolist(), arrays["dur"].tolist()) == ([100, 1100, 2100], [50] * 3)
    assert set(arrays["ref"].tolist()) == {2**32 - 1}, "of no span"
    assert (tile.meta["merged"], tile.meta["pixel_ns"], tile.meta["num_spans"]) == (3, 9.0, 0)


def test_a_tile_says_whose_lanes_it_has_and_on_which_clock(run):
    lanes = places(run)
    have = extent(run, 0, [0, 1])
    meta = tile_meta(run, 0, lanes, Window(5, 9, step=None), have)
    assert (meta["from"], meta["to"], meta["t0_ns"]) == (5, 9, str(T0))
    assert (meta["clock"], meta["only_comm"]) == ("absolute", False)
    assert [(one["rank"], one["host"], one["aligned"]) for one in meta["lanes"]] == [
        (0, "h0", True),
        (1, "h1", True),
    ]
    assert meta["lanes"][1]["label"] == "r1 tp1"
    assert meta["lanes"][1]["place"] == [None, None, None, 1]
    assert meta["extent"]["finished_step"] == 2
    assert "only_collectives" not in meta["extent"]
