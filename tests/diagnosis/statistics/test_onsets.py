"""Since when all ranks compute longer than before."""

from __future__ import annotations

import pytest

from diagnosis.statistics.onsets import not_comparable, onsets, wall_share
from diagnosis.statistics.phase_times import phase_times
from tests.diagnosis.work_tables import phase_tables
from trace_hooks.layout import ParallelLayout

LAYOUT = ParallelLayout.from_sizes(dp=8)
LONGER_FROM = 15


def job(factor: float, num_slow: int = 8, num_steps: int = 40) -> dict:
    def phases(rank: int, step: int) -> dict[str, float]:
        longer = 100.0 * (factor - 1) if rank < num_slow and step >= LONGER_FROM else 0.0
        noise = 0.1 * ((rank * 7 + step * 3) % 5)
        return {"compute_ms": 100.0 + longer + noise, "step_ms": 200.0 + longer}

    return phase_tables(LAYOUT, num_steps, phases)


def test_the_first_step_and_the_rise_of_the_median_rank() -> None:
    times = phase_times(job(1.3))
    (onset,) = onsets(times)
    assert (onset.episode.first, onset.episode.last) == (LONGER_FROM, 39)
    assert onset.episode.excess == pytest.approx(0.3, rel=0.05)
    assert onset.before_ms == pytest.approx(100, rel=0.01)
    assert onset.longer_ms == pytest.approx(30, rel=0.05)
    assert wall_share(times, onset) == pytest.approx(30 / 230, rel=0.05)


@pytest.mark.parametrize(
    ("factor", "num_slow"), [(1.0, 8), (1.02, 8), (1.3, 4)], ids=["healthy", "little", "half"]
)
def test_what_is_not_the_whole_job_is_no_onset(factor: float, num_slow: int) -> None:
    assert onsets(phase_times(job(factor, num_slow))) == []


def test_few_steps_are_not_compared() -> None:
    (missing,) = not_comparable("x", phase_times(job(1.3, num_steps=3)))
    assert missing.missing == "3 finished steps are too few: at least 4 are needed."
    assert not_comparable("x", phase_times(job(1.3))) == ()
