"""What the recorder holds becomes Arrow tables."""

from __future__ import annotations

import pytest

from trace_hooks.recording.arrow_columns import row_table, span_table
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
