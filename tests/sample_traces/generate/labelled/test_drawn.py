"""Jobs drawn at random: the same seed is the same job, a louder fault costs more."""

from __future__ import annotations

import pytest

from sample_traces.generate.labelled.drawn import draw_healthy, draw_labelled


def test_a_seed_is_a_job() -> None:
    first, second = (draw_labelled("slow_worker", "loud", 3).job for _ in range(2))
    assert first == second
    assert draw_healthy(3).job != draw_healthy(4).job
    assert draw_healthy(3).job.faults == ()


@pytest.mark.parametrize("kind", ["slow_worker", "gc_pauses"])
def test_a_louder_dose_costs_more(kind: str) -> None:
    masked, loud = (draw_labelled(kind, dose, 5) for dose in ("masked", "loud"))
    assert kind in {fault.kind for fault in loud.job.faults}
    assert 1 < masked.slowdown < loud.slowdown
