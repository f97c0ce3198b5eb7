"""Collections become spans; the callbacks are removed again."""

import gc

from tests.trace_hooks.tiny_models import tracing


def test_full_collections_are_recorded_and_short_young_ones_are_not():
    with tracing("gc") as traced:
        gc.collect()
        for _ in range(50):
            gc.collect(0)
        names = [span.name for span in traced.spans("gc")]
        assert names.count("gc generation 2") >= 1
        assert names.count("gc generation 0") < 50
        full = next(span for span in traced.spans() if span.name == "gc generation 2")
        assert full.row.end_ns > full.row.begin_ns
        assert full.row.cpu_ns > 0


def test_a_collection_lies_inside_the_span_it_interrupts():
    with tracing("gc") as traced:
        outer = traced.recorder.open()
        gc.collect()
        traced.recorder.close(traced.recorder.site("work", "host"), outer)
        assert {s.name: s.row.depth for s in traced.spans() if s.name != "gc generation 0"} == {
            "work": 0,
            "gc generation 2": 1,
        }


def test_gc_callbacks_are_as_before():
    before = list(gc.callbacks)
    with tracing("gc"):
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before
