"""Rows of queries as numpy columns: lanes, times, dictionaries, joined tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from app.views.timeline.query import LaneQuery
from app.views.timeline.span_table import (
    NO_STEP,
    SpanTable,
    StepWindows,
    dictionary,
    ints,
    lane_of,
    take,
)
from app.views.timeline.window import Window, extent
from ingest.run import Run, open_run
from tests.app.views.timeline.shifted_run import places
from tests.runs_builder import US, RunBuilder, collectives_only_run, two_rank_run
from trace_hooks.schema import KINDS


def recorded(run: Run):
    """Spans, collective instances and step windows of the first 100 us of all ranks."""
    lanes = places(run)
    have = extent(run, 0, [place.rank for place in lanes])
    return LaneQuery(run, 0, lanes, Window(0, 100 * US), have).recorded()


def test_a_rank_is_the_lane_at_which_it_is_drawn():
    ranks = np.array([5, 9, 2, 7])
    assert lane_of(ranks, (9, 2, 5)).tolist() == [2, 0, 1, -1]


def test_a_missing_number_has_its_own_value():
    rows = pa.table({"peer": pa.array([3, None], pa.int32()), "name": ["b", "b"]})
    assert ints(rows, "peer").tolist() == [3, -1]
    assert ints(rows, "peer", 7).tolist() == [3, 7]
    index, values = dictionary(rows, "name")
    assert (index.tolist(), values) == ([0, 0], ["b"])


def test_spans_are_columns_from_t0_on(tmp_path):
    builder = RunBuilder(tmp_path / "run", 1)
    builder.step(0, 0, 0, 100)
    builder.span(0, 0, "forward", 10, 50, name="a", microbatch=3)
    builder.span(0, 0, "tp_comm", 20, 20, name="b", group_id=1 << 60, coll_seq=4)
    builder.rank_files()
    builder.publish()
    with open_run(builder.folder) as run:
        spans, *_ = recorded(run)
    order = np.argsort(spans.begin_S)
    spans = take(spans, order)
    assert spans.begin_S.tolist() == [10 * US, 20 * US]
    assert spans.end_S.tolist() == [50 * US, 20 * US + 1], "no length: 1 ns"
    assert [KINDS[kind] for kind in spans.kind_S] == ["forward", "tp_comm"]
    assert [spans.names[name] for name in spans.name_S] == ["a", "b"]
    assert (spans.microbatch_S[0], spans.group_S[0], spans.seq_S[1]) == (3, -1, 4)
    assert spans.groups[spans.group_S[1]] == 1 << 60


def test_joined_spans_keep_their_names_and_groups(tmp_path):
    with open_run(two_rank_run(tmp_path / "run", num_steps=1).folder) as run:
        one, instances, windows = recorded(run)
    with open_run(collectives_only_run(tmp_path / "only").folder) as run:
        other, *_ = recorded(run)
    both = one.joined(other)
    assert len(both) == len(one) + len(other)
    for part, start in ((one, 0), (other, len(one))):
        stop = start + len(part)
        named = [both.names[name] for name in both.name_S[start:stop]]
        assert named == [part.names[name] for name in part.name_S]
        groups = [both.groups[g] if g >= 0 else None for g in both.group_S[start:stop]]
        assert groups == [part.groups[g] if g >= 0 else None for g in part.group_S]
    assert len(SpanTable.none().joined(one)) == len(one)
    assert instances.late_rank_W.tolist() == [1, 1]
    assert windows.clipped(30, 40).end_C.tolist() == [40, 40]


def test_ranks_without_steps_have_one_window_with_the_collectives_that_are_seen():
    windows = StepWindows.of_records([(2, 100), (0, 10)], (0, 1000), (500, 2000))
    assert windows.lane_C.tolist() == [2, 0]
    assert windows.step_C.tolist() == [NO_STEP] * 2
    assert (windows.begin_C.tolist(), windows.end_C.tolist()) == ([0, 0], [1000, 1000])
    assert windows.num_spans_C.tolist() == [50, 5], "half of the record is seen"
    assert windows.joined(windows).lane_C.tolist() == [2, 0, 2, 0]
