"""What the recorder holds becomes Arrow tables."""

from __future__ import annotations

import pytest

from trace_hooks.recording.arrow_columns import good_rows, row_table, span_table
from trace_hooks.recording.clock import Anchor
from trace_hooks.recording.recorder import Recorder


def test_a_row_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="colour"):
        row_table("marks", [{"colour": "red"}], Anchor())


def test_spans_are_converted_without_a_look_at_sites_that_do_not_occur() -> None:
    recorder = Recorder()
    numbers = [recorder.site(name, "host") for name in ("a", "b", "c")]
    for number in (numbers[2], numbers[0], numbers[2]):
        recorder.add_span(number, 1, 2, step=0)
    recorder.sites[1] = None  # type: ignore[call-overload]
    spans = span_table(recorder.spans, recorder.sites, str, Anchor())
    assert spans.column("name").to_pylist() == ["c", "a", "c"]


def test_a_row_with_a_number_beyond_int64_is_left_out_alone() -> None:
    rows = [{"source": "a", "samples": number} for number in (1, 10**30, 3)]
    bad: list[Exception] = []
    table = good_rows("batch_sources", rows, Anchor(), bad.append)
    assert table is not None
    assert table.column("samples").to_pylist() == [1, 3]
    assert [type(error) for error in bad] == [OverflowError]


def test_names_that_utf8_cannot_encode_are_escaped() -> None:
    recorder = Recorder()
    recorder.add_span(recorder.site("load /data/\udcff", "host"), 1, 2, step=0)
    spans = span_table(recorder.spans, recorder.sites, recorder.thread_name, Anchor())
    assert spans.column("name").to_pylist() == [r"load /data/\udcff"]
