"""Tiles of the timeline made of small runs: what is in them, where it lies, what bounds them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from app.views.timeline import tile as timeline
from app.views.timeline.query import LaneQuery
from app.views.timeline.tile import Tiles, tile
from app.views.timeline.tile_arrays import COMM, COMPUTE, HOST, IDLE, WAIT
from app.views.timeline.window import Window, default_window, extent, window_of_steps
from ingest.errors import UserError
from ingest.imports.importer import import_paths
from ingest.run import open_run
from tests.app.views.timeline.shifted_run import made, places, shifted_run
from tests.runs_builder import T0, US, RunBuilder
from trace_hooks.schema import TABLES


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with shifted_run(tmp_path_factory.mktemp("timeline") / "run") as opened:
        yield opened


def of(found, **wanted):
    """Rows {name: value} of rectangles with these values, times in us."""
    arrays, meta = found.arrays, found.meta
    chosen = np.ones(arrays["lane"].size, dtype=bool)
    for name, value in wanted.items():
        chosen &= arrays[name] == (meta["kinds"].index(value) if name == "kind" else value)
    return [
        (arrays["start"][i] / US, (arrays["start"][i] + arrays["dur"][i]) / US)
        for i in np.flatnonzero(chosen)
    ]


def test_rows_and_times_of_a_lane(run):
    picture = made(run, Window(0, 100 * US))
    assert picture.meta["detail"] == "nested"
    assert of(picture, lane=0, row=COMPUTE, kind="forward") == [(10, 50)]
    assert of(picture, lane=0, row=COMM) == [(20, 50)]
    assert of(picture, lane=0, row=HOST) == [(0, 10)]
    assert of(picture, row=COMPUTE, kind="backward", lane=0) == [(50, 90)]


def test_lanes_lie_on_the_aligned_clock(run):
    picture = made(run, Window(0, 200 * US))
    assert of(picture, lane=1, kind="data_wait") == [(30, 40), (130, 140)]
    assert of(picture, lane=1, kind="forward") == [(40, 80), (140, 180)]
    begins = picture.arrays["step_begin"][picture.arrays["step_lane"] == 1] / US
    assert begins.tolist() == [30, 130]


def test_in_the_overview_communication_inside_forward_is_no_compute(run):
    picture = made(run, Window(0, 300 * US), width_px=60)
    assert picture.meta["detail"] == "innermost"
    assert of(picture, lane=0, row=COMPUTE, kind="forward") == [(10, 20), (110, 120), (210, 220)]
    busy = picture.arrays["busy"][
        (picture.arrays["lane"] == 0) & (picture.arrays["row"] == COMPUTE)
    ]
    assert busy.sum() == 3 * (10 + 40 + 10) * US


def test_waiting_names_the_rank_and_stands_in_both_rows(run):
    picture = made(run, Window(0, 100 * US))
    assert of(picture, lane=0, row=IDLE, kind="waiting") == [(20, 50)]  # rank 1 comes at 40 + 30
    assert of(picture, lane=0, row=WAIT) == [(20, 50)]
    refs = picture.arrays["ref"][picture.arrays["row"] == WAIT]
    assert picture.arrays["wait_rank"][refs].tolist() == [1]
    assert picture.meta["wait_groups"] == ["7"]
    assert picture.arrays["wait_latest"][refs] / US == 70


def test_a_window_without_data_is_empty_not_an_error(run):
    picture = made(run, Window(10_000 * US, 11_000 * US))
    assert {name: array.size for name, array in picture.arrays.items()} == dict.fromkeys(
        picture.arrays, 0
    )


def test_windows(run):
    have = extent(run, 0, [0, 1])
    assert (have.begin_ns, have.end_ns, have.finished_step) == (0, 330 * US, 2)
    assert window_of_steps(run, 0, [0, 1], (1, 1)) == Window(100 * US, 230 * US)
    assert default_window(run, 0, [0, 1], have) == Window(100 * US, 330 * US)
    with pytest.raises(UserError, match="no step 7 to 9"):
        window_of_steps(run, 0, [0, 1], (7, 9))


def test_more_lanes_than_one_answer_has_are_refused(run):
    with pytest.raises(UserError, match="65 lanes"):
        made(run, Window(0, 1), lanes=places(run)[:1] * 65)


def test_times_relative_to_each_step_are_drawn_one_step_at_a_time(tmp_path):
    builder = RunBuilder(
        tmp_path / "run", 1, clock="per_step_relative", source="straggler_analysis"
    )
    for step in (3, 9):
        builder.step(0, step, 0, 100)
        builder.span(0, step, "forward", step, 100)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as opened:
        window = window_of_steps(opened, 0, [0], (3, 9))
        assert window.step == 9
        assert of(made(opened, window), kind="forward") == [(9, 100)]
        assert default_window(opened, 0, [0], extent(opened, 0, [0])).step == 9


def test_a_host_side_forward_is_no_compute_where_there_are_kernels(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    builder.step(0, 0, 0, 100)
    builder.span(0, 0, "forward", 0, 50)
    builder.span(0, 0, "kernel", 20, 40, track="stream")
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as opened:
        picture = made(opened, Window(0, 100 * US))
    assert of(picture, row=COMPUTE) == [(20, 40)]
    assert of(picture, row=HOST) == [(0, 50)]


@pytest.fixture
def few(monkeypatch):
    """Any picture has too many spans."""
    monkeypatch.setattr(timeline, "MANY_SPANS", 5)
    monkeypatch.setattr(timeline, "MOST_SPANS", 20)


def test_too_many_spans_are_drawn_as_sums_of_steps(run, few):
    picture = made(run, Window(0, 330 * US))
    assert picture.meta["detail"] == "steps"
    assert picture.meta["num_spans"] == 30
    assert of(picture, lane=0, row=COMPUTE, kind="backward") == [(0, 100), (100, 200), (200, 300)]
    assert of(picture, lane=1, row=COMPUTE, kind="backward")[0] == (30, 130)
    busy = picture.arrays["busy"][
        (picture.arrays["lane"] == 0) & (picture.arrays["row"] == COMPUTE)
    ]
    assert busy.tolist() == [60 * US] * 3
    assert picture.arrays["step"].tolist() == [0, 1, 2, 0, 1, 2]


def test_many_steps_are_taken_together(run, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_WINDOWS", 2)
    picture = made(run, Window(0, 330 * US), width_px=6)
    assert (picture.meta["detail"], picture.meta["pool"]) == ("steps", 2)
    assert picture.arrays["step"].tolist() == [0, 2, 0, 2]


def test_tiles_of_several_widths_are_read_once(run, monkeypatch):
    lanes = places(run)
    have = extent(run, 0, [place.rank for place in lanes])
    window = Window(0, 330 * US)
    asked = []
    ask = run.ask
    monkeypatch.setattr(run, "ask", lambda name, **given: asked.append(name) or ask(name, **given))
    tiles = Tiles(LaneQuery(run, 0, lanes, window, have))
    wide, narrow = tiles.tile(1000), tiles.tile(30)
    assert sorted(asked) == ["step_windows", "window_spans", "window_waits"]
    assert wide.meta["pixel_ns"] < narrow.meta["pixel_ns"]
    for width_px, drawn in ((1000, wide), (30, narrow)):
        alone = made(run, window, width_px)
        assert drawn.meta == alone.meta
        assert all(np.array_equal(drawn.arrays[name], alone.arrays[name]) for name in alone.arrays)


def test_overlapping_kernels_of_an_imported_stream_are_all_drawn_each_on_its_own(tmp_path):
    """Programmatic dependent launch: a kernel of the stream begins before the one before ends."""
    base = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "dur": 10}
    events = [{**base, "name": f"k{n}", "ts": 1_700_000_000_000_000 + 8 * n} for n in range(9)]
    (tmp_path / "rank-0.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    with open_run(import_paths([tmp_path / "rank-0.json"], tmp_path / "runs")) as run:
        found = tile(run, 0, places(run), Window(0, 82 * US), 1000, extent(run, 0, [0]))
    drawn = sorted(of(found, kind="kernel"))
    assert drawn == [(8 * n, 8 * n + 10) for n in range(9)]
    rows = zip(found.arrays["start"], found.arrays["level"], found.arrays["row"], strict=True)
    assert [level for _, level, row in sorted(rows) if row == COMPUTE] == [0, 1] * 4 + [0]


@pytest.fixture(scope="module")
def summed(tmp_path_factory):
    """Two steps of 100 us each; the spans of the second one were summed up."""
    builder = RunBuilder(tmp_path_factory.mktemp("summed") / "run", 1)
    builder.rank_files()
    for step in range(2):
        builder.step(0, step, 100 * step, 100 * step + 100)
    builder.span(0, 0, "forward", 0, 80, track="main")
    sums = dict.fromkeys((c.name for c in TABLES["step_sums"].columns[3:]), 0)
    sums |= {"ts_ns": T0 + 100 * US, "compute_ns": 70 * US, "covered_ns": 90 * US, "num_spans": 7}
    builder.add("step_sums", 0, 1, **sums)
    for kind, time_us in (("forward", 30), ("backward", 40), ("tp_comm", 20)):
        times = dict.fromkeys(("time_ns", "exposed_ns", "self_cpu_ns"), time_us * US)
        builder.add("kind_sums", 0, 1, ts_ns=T0 + 100 * US, kind=kind, num_spans=2, **times)
    builder.publish()
    with open_run(builder.folder) as opened:
        yield opened


def test_a_step_that_was_summed_up_is_one_box_in_each_row_next_to_the_spans_of_others(summed):
    picture = made(summed, Window(0, 200 * US))
    assert of(picture, row=COMPUTE, kind="forward") == [(0, 80)]
    assert of(picture, row=COMPUTE, kind="backward") == [(100, 200)]
    assert of(picture, row=COMM, kind="tp_comm") == [(100, 200)]
    is_box = picture.arrays["start"] >= 100 * US
    assert picture.arrays["busy"][is_box].tolist() == [70 * US, 20 * US]
    assert picture.arrays["count"][is_box].tolist() == [4, 2]
    assert of(picture, row=IDLE, kind="not_visible") == [(80, 100)], "not the summed step"
    assert (picture.meta["summed_steps"], picture.meta["merged"]) == (1, 0)


def test_a_window_without_summed_steps_says_nothing_of_them(summed):
    assert made(summed, Window(0, 100 * US)).meta["summed_steps"] == 0
