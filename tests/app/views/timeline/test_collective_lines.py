"""Timelines of ranks that recorded collectives only: a hand-built run and Flight Recorder dumps."""

from __future__ import annotations

import numpy as np
import pytest

from app.views.timeline import tile as timeline
from app.views.timeline.area_sums import found
from app.views.timeline.tile import tile
from app.views.timeline.tile_arrays import COMM, COMPUTE, HOST, IDLE, WAIT
from app.views.timeline.window import Window, default_window, extent
from ingest.imports.importer import import_paths
from ingest.run import open_run
from tests.app.views.timeline.shifted_run import places
from tests.folders import NO_TRACES, TRACES
from tests.runs_builder import US, collectives_only_run, two_rank_run

DUMPS = TRACES / "flight_recorder"
END = 94.001
"""us: where the record ends in the picture"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    builder = collectives_only_run(tmp_path_factory.mktemp("only") / "run")
    with open_run(builder.folder) as opened:
        yield opened


def made(run, window=None, width_px=1000):
    lanes = places(run)
    ranks = [place.rank for place in lanes]
    have = extent(run, 0, ranks)
    return tile(run, 0, lanes, window or default_window(run, 0, ranks, have), width_px, have)


def boxes(found, **wanted):
    """(lane, level, begin us, end us, kind) of the rectangles with these values."""
    arrays, kinds = found.arrays, found.meta["kinds"]
    chosen = np.ones(arrays["lane"].size, dtype=bool)
    for name, value in wanted.items():
        chosen &= arrays[name] == value
    return [
        (
            int(arrays["lane"][i]),
            int(arrays["level"][i]),
            arrays["start"][i] / US,
            (arrays["start"][i] + arrays["dur"][i]) / US,
            kinds[arrays["kind"][i]],
        )
        for i in np.flatnonzero(chosen)
    ]


def test_the_extent_is_that_of_the_collectives_and_leaves_room_for_what_is_open(run):
    have = extent(run, 0, [0, 1, 2])
    assert (have.begin_ns, have.end_ns) == (10 * US, 94 * US + 1)
    assert (have.first_step, have.last_step, have.finished_step) == (-1, -1, None)
    assert have.only_collectives == {0: 3, 1: 2, 2: 0}
    assert extent(run, 0, [2]) is None
    assert default_window(run, 0, [0, 1, 2], have) == Window(have.begin_ns, have.end_ns)


LINES = [
    (0, 0, 10, 50, "tp_comm"),
    (0, 0, 60, END, "tp_comm"),
    (0, 1, 20, END, "dp_comm"),
    (1, 0, 30, 50, "tp_comm"),
    (1, 0, 70, 90, "tp_comm"),
]
"""Boxes of the whole run: rank, line, begin, end and kind."""


def test_collectives_are_boxes_one_line_per_group_until_the_next(run):
    picture = made(run, Window(0, 100 * US))
    assert boxes(picture, row=COMM) == LINES
    assert boxes(picture, row=COMPUTE) == boxes(picture, row=HOST) == []
    assert picture.arrays["step"].size == 0


def test_what_was_not_completed_is_labelled_with_how_far_it_came(run):
    picture = made(run, Window(0, 100 * US))
    arrays, names = picture.arrays, picture.meta["names"]
    is_open = {
        names[n]: bool(o) for n, o in zip(arrays["span_name"], arrays["span_open"], strict=True)
    }
    assert is_open == {
        "all_reduce": False,
        "send": False,
        "all_reduce, started, not completed": True,
        "broadcast, enqueued, not completed": True,
    }
    seqs = dict(zip([names[n] for n in arrays["span_name"]], arrays["span_seq"], strict=True))
    assert seqs["send"] == -1  # set apart: its number matches nothing


def test_waiting_is_drawn_where_the_clocks_are_known(run):
    picture = made(run, Window(0, 100 * US))
    assert boxes(picture, row=WAIT) == [(0, 0, 10, 30, "waiting")]
    assert (2, 0, 10, END, "not_visible") in boxes(picture, row=IDLE)


def test_too_many_are_taken_together_by_the_pixel(run, monkeypatch):
    monkeypatch.setattr(timeline, "MANY_SPANS", 3)
    picture = made(run, Window(0, 100 * US), width_px=2)
    assert picture.meta["detail"] == "innermost"
    assert picture.meta["pixel_ns"] == 50 * US
    assert boxes(picture, row=COMM) == LINES


def test_a_part_of_the_window_counts_as_that_part(run, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_SPANS", 3)
    assert len(boxes(made(run, Window(65 * US, 75 * US)), row=COMM)) == 3
    assert made(run, Window(65 * US, 75 * US)).arrays["span_open"].sum() == 2


def test_a_rank_with_spans_is_drawn_as_ever(tmp_path):
    builder = two_rank_run(tmp_path / "run", num_steps=1)
    builder.world_size, builder.layout, builder.hosts = 3, None, ["h0"] * 3
    builder.collective(2, -1, 7, 0, 20, 40)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        have = extent(run, 0, [0, 1, 2])
        assert have.only_collectives == {2: 1}
        drawn = boxes(made(run, Window(0, 100 * US)), row=COMM)
        names = found(run, 0, [0, 1, 2], "all_reduce", have)
    assert drawn == [
        (0, 0, 20, 50, "tp_comm"),
        (1, 0, 40, 50, "tp_comm"),
        (2, 0, 20, 40, "tp_comm"),
    ]
    assert names["num_found"] == 1


@pytest.mark.parametrize(("dump", "empty"), [("gpu_error_1st", []), ("lock_gil_1st", [9, 14])])
def test_flight_recorder_dumps_end_on_a_picture_of_all_ranks(dump, empty, tmp_path):
    if not (DUMPS / dump).is_dir():
        pytest.skip(NO_TRACES)
    with open_run(import_paths([DUMPS / dump], tmp_path / "runs")) as run:
        picture = made(run)
        [total] = run.sql("SELECT count(*) AS n FROM collectives").to_pylist()
    drawn = boxes(picture, row=COMM)
    assert {lane for lane, *_ in drawn} == set(range(16)) - set(empty)
    assert picture.arrays["span_open"].all()
    assert sum(picture.arrays["count"][picture.arrays["row"] == COMM]) == total["n"]
    blank = [lane for lane, _, begin, _, _ in boxes(picture, row=IDLE) if begin == 0]
    assert set(empty) <= set(blank)
