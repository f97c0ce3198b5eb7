"""Spans of the recorder: nesting, sites, and what a full list drops."""

from __future__ import annotations

import pytest

from trace_hooks.recording import recorder as recorder_module
from trace_hooks.recording.recorder import SPAN_FIELDS, Recorder, Site, SpanRow


def test_a_site_made_by_two_threads_at_once_keeps_its_name() -> None:
    class Interrupted(list[Site]):
        """Another thread gets its turn right after each append."""

        def append(self, site: Site) -> None:
            super().append(site)
            if site.name == "block":
                recorder.site("gc", "gc")

    recorder = Recorder()
    recorder.sites = Interrupted()
    numbers = [recorder.site("block", "forward"), recorder.site("gc", "gc")]
    assert [recorder.sites[number].name for number in numbers] == ["block", "gc"]


def spans(recorder: Recorder) -> list[SpanRow]:
    flat = recorder.spans
    return [SpanRow(*flat[i : i + SPAN_FIELDS]) for i in range(0, len(flat), SPAN_FIELDS)]


def test_spans_nest_and_carry_the_step_they_began_in() -> None:
    recorder = Recorder()
    recorder.rank_state.step = 4
    outer = recorder.open()
    inner = recorder.open()
    recorder.rank_state.step = 5
    recorder.close(recorder.site("inner", "host"), inner)
    recorder.close(recorder.site("outer", "forward"), outer, microbatch=2)
    first, second = spans(recorder)
    assert (first.depth, second.depth) == (1, 0)
    assert (first.step, second.step) == (4, 4)
    assert (first.microbatch, second.microbatch) == (-1, 2)
    assert second.begin_ns <= first.begin_ns <= first.end_ns <= second.end_ns


def test_a_span_that_an_exception_left_open_does_not_shift_later_ones() -> None:
    recorder = Recorder()
    outer = recorder.open()
    recorder.open()  # never closed
    recorder.close(recorder.site("outer", "host"), outer)
    recorder.close(recorder.site("next", "host"), recorder.open())
    assert [span.depth for span in spans(recorder)] == [0, 0]


def test_rows_belong_to_the_running_step_unless_they_say_another() -> None:
    recorder = Recorder()
    recorder.rank_state.step = 4
    recorder.add_row("marks", text="a")
    recorder.add_row("marks", text="b", step=1)
    assert [row["step"] for _, row in recorder.rows] == [4, 1]


def test_full_lists_drop_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_ROWS", 1)
    monkeypatch.setattr(recorder_module, "MAX_SPAN_FIELDS", SPAN_FIELDS)
    recorder = Recorder()
    for _ in range(3):
        recorder.add_row("marks")
        recorder.close(recorder.site("a", "host"), recorder.open())
    recorder.add_span(0, 1, 2, step=0)
    assert (len(recorder.rows), len(spans(recorder)), recorder.dropped) == (1, 1, 5)


def test_a_recorder_that_has_ended_takes_no_rows() -> None:
    recorder = Recorder()
    recorder.end()
    recorder.add_row("marks")
    recorder.close(recorder.site("a", "host"), recorder.open())
    recorder.add_span(0, 1, 2, step=0)
    assert (recorder.rows, recorder.spans) == ([], [])


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown span kind 'x'"):
        Recorder().site("a", "x")


def test_a_new_site_is_not_compared_with_those_there_are() -> None:
    class Uncompared(Site):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("a job with a name for each span would take ever longer")

        __hash__ = Site.__hash__

    recorder = Recorder()
    recorder.sites += [Uncompared(str(number), "host") for number in range(3)]
    assert recorder.site("another", "host") == 3


def test_a_span_that_outlives_the_one_around_it_does_not_shift_later_ones() -> None:
    recorder = Recorder()
    of_generator = recorder.open()
    inner = recorder.open()
    recorder.close(recorder.site("generator", "host"), of_generator)
    recorder.close(recorder.site("inner", "host"), inner)
    assert recorder.depth == 0
    recorder.close(recorder.site("next", "host"), recorder.open())
    assert [span.depth for span in spans(recorder)] == [0, 1, 0]
