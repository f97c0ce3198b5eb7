"""Events of the profiler: the step of a time."""

from __future__ import annotations

from trace_hooks.sources.profiling.profiled_rows import StepWindows


def test_the_step_of_a_time_is_the_one_that_began_last() -> None:
    windows = StepWindows()
    windows.add(4, 100)
    windows.add(5, 200)
    assert [windows.at(time) for time in (90, 100, 199, 200, 900)] == [4, 4, 4, 5, 5]
