"""Spans of one rank, kept small: steps filled, moved, refused where no span can be."""

from __future__ import annotations

import pickle  # noqa: TID251  # what the test itself packed

import pytest

from ingest.limits import Limits
from ingest.readers.tables import span_list
from ingest.readers.tables.span_list import SpanList, TooMany


def _spans() -> SpanList:
    spans = SpanList()
    spans.add(10, 5, "forward", "a", "t")
    spans.add(25, -3, "host", "b", "u", step=7)
    return spans


def test_times_no_span_can_have_are_refused() -> None:
    spans = _spans()
    spans.add(1 << 62, 1, "host", "x", "t")
    assert (len(spans), spans.num_refused) == (2, 1)


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_list, "limits", lambda: Limits(max_rows=1))
    spans = SpanList()
    spans.add(0, 1, "host", "x", "t")
    with pytest.raises(TooMany, match="RANKSCOPE_MAX_ROWS=1"):
        spans.add(1, 1, "host", "x", "t")


def test_spans_without_a_step_get_the_one_that_began_last() -> None:
    spans = _spans()
    spans.fill_steps([(3, 9, 20), (4, 20, 30)])
    assert spans._array("step").tolist() == [3, 7]


def test_it_is_moved_and_can_be_pickled() -> None:
    spans = pickle.loads(pickle.dumps(_spans()))
    spans.add(200, 1, "host", "c", "t")
    spans.shift(100)
    assert spans._array("ts_ns").tolist() == [110, 125, 300]
    assert len(spans.part(lambda track: track == "t")) == 2
