"""What a timeline asks of a run: which rows come back, and on whose clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.views.timeline.query import LaneQuery, places_of
from app.views.timeline.span_table import NO_STEP
from app.views.timeline.window import Window, extent
from ingest.run import Run, open_run
from tests.app.views.timeline.shifted_run import SHIFT_US, shifted_run
from tests.runs_builder import US, collectives_only_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with shifted_run(tmp_path_factory.mktemp("query") / "run") as opened:
        yield opened


def query(run: Run, window: Window, ranks: tuple[int, ...] = (0, 1)) -> LaneQuery:
    places = places_of(run, 0)
    have = extent(run, 0, list(ranks))
    assert have is not None
    return LaneQuery(run, 0, [places[rank] for rank in ranks], window, have)


def test_lanes_are_numbered_in_the_requested_order(run: Run) -> None:
    spans = query(run, Window(0, 100 * US), (1, 0)).spans()
    begins = {lane: spans.begin_S[spans.lane_S == lane].min() for lane in (0, 1)}
    assert begins == {0: SHIFT_US * US, 1: 0}


def test_spans_are_those_of_the_window_on_the_aligned_clock(run: Run) -> None:
    spans = query(run, Window(0, 20 * US), (1,)).spans()
    assert len(spans) == 0, "rank 1 begins at 30 us"
    spans = query(run, Window(0, 35 * US), (1,)).spans()
    assert spans.begin_S.tolist() == [SHIFT_US * US]


def test_a_part_of_the_record_has_that_share_of_the_steps(run: Run) -> None:
    assert query(run, Window(0, 330 * US)).num_steps == pytest.approx(3)
    assert query(run, Window(0, 110 * US)).num_steps == pytest.approx(1)
    assert query(run, Window(0, 110 * US, step=2)).num_steps == 1


def test_without_a_known_clock_no_collective_has_a_verdict(run: Run) -> None:
    lane_query = query(run, Window(0, 100 * US))
    windows = lane_query.step_windows()
    assert lane_query.instances(windows).lane_W.size > 0
    lanes = [replace(place, shift_min_ns=None, shift_max_ns=None) for place in lane_query.lanes]
    assert replace(lane_query, lanes=lanes).instances(windows).lane_W.size == 0


def test_ranks_with_collectives_only_have_one_window_and_spans_of_them(tmp_path: Path) -> None:
    builder = collectives_only_run(tmp_path / "only")
    with open_run(builder.folder) as run:
        lane_query = query(run, Window(0, 100 * US), (0, 1, 2))
        windows, spans = lane_query.step_windows(), lane_query.spans()
        assert lane_query.has_only_collectives.all()
        assert windows.step_C.tolist() == [NO_STEP] * 3
        assert windows.num_spans_C.tolist() == [3, 2, 0]
        assert [int((spans.lane_S == lane).sum()) for lane in range(3)] == [3, 2, 0]
        half = replace(lane_query, window=Window(lane_query.extent.begin_ns, 52 * US))
        assert half.step_windows().num_spans_C.tolist() == [1, 0, 0]
        assert half.least_bin_ns(most=126) == 1000, "126 us of three ranks in 126 bins"
