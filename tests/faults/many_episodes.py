"""A run with as many episodes of one cause as wanted: collections of garbage come and go."""

from __future__ import annotations

from pathlib import Path

from tests.runs_builder import RunBuilder

EPISODE = 8
"""Steps with a collection, then as many without."""
STEP_US = 100.0


def run_with_episodes(folder: Path, num: int) -> None:
    """A finished run of one rank with so many episodes."""
    run = RunBuilder(folder, 1)
    for step in range(2 * EPISODE * num):
        begin = step * STEP_US
        run.step(0, step, begin, begin + STEP_US)
        run.span(0, step, "forward", begin, begin + 40)
        if step // EPISODE % 2:
            run.span(0, step, "gc", begin + 40, begin + 90, name="gc")
    end_ns = run.rows["steps", 0, 0][-1]["start_ns"]
    run.rank_files(end={"ts_ns": end_ns, "status": "finished", "error": None})
    run.publish()
