"""Jobs of the StragglerAnalysis schema drawn at random."""

from __future__ import annotations

from sample_traces.generate.labelled.drawn_trace import draw_trace


def test_a_seed_is_a_trace_with_its_fault() -> None:
    drawn = draw_trace("slow_worker", "loud", 1)
    assert drawn.job == draw_trace("slow_worker", "loud", 1).job
    assert [label.kind for label in drawn.labels] == ["slow_worker"]
    assert drawn.slowdown > draw_trace("slow_worker", "masked", 1).slowdown > 1


def test_a_healthy_one_has_no_label() -> None:
    assert draw_trace(None, "loud", 1).labels == ()
