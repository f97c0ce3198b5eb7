"""Memory of micro-batches, from what a run recorded to what its schedules would take."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.views.whatif.analysis import Answer, whatif_of
from app.views.whatif.schedules import Asked, schedules_of
from ingest.errors import UserError
from ingest.run import Run, open_run
from tests.runs_builder import T0, RunBuilder
from trace_hooks.layout import ParallelLayout

FORWARD, BACKWARD, STEP = 10, 20, 1_000
KINDS = {"F": "forward", "B": "backward"}
ORDERS = ("F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3")
"""1F1B of two stages and four micro-batches."""
KEPT, PEAK = (3_000_000_000, 4_000_000_000), (30_000_000_000, 26_000_000_000)


def pipeline_run(folder: Path, read_in: int, num_steps: int = 6) -> Run:
    """A run whose forwards say in step `read_in` what they keep."""
    run = RunBuilder(folder, 2, ParallelLayout.from_sizes(pp=2))
    for step in range(num_steps):
        for rank, order in enumerate(ORDERS):
            at = step * STEP + rank * FORWARD
            run.step(rank, step, step * STEP, (step + 1) * STEP)
            for action in order.split():
                kind, i = KINDS[action[0]], int(action[1])
                took = FORWARD if kind == "forward" else BACKWARD
                says = step == read_in and kind == "forward"
                args = f'{{"kept":{KEPT[rank]}}}' if says else None
                run.span(rank, step, kind, at, at + took, microbatch=i, chunk=rank, args=args)
                at += 2 * took
            run.add("memory", rank, step, ts_ns=T0, allocated=1, peak=PEAK[rank])
    run.rank_files()
    run.publish()
    return open_run(folder)


def schedules(answer: Answer, **asked: object) -> dict[str, dict[str, object]]:
    found = schedules_of(answer, Asked(**asked), lambda: None)  # type: ignore[arg-type]
    return {one["name"]: one for one in found["schedules"]}


@pytest.mark.parametrize("read_in", [1, 4])
def test_activations_and_peaks_follow_from_what_forwards_keep(tmp_path: Path, read_in: int) -> None:
    with pipeline_run(tmp_path / "run", read_in) as run:
        steps = None if read_in == 4 else (3, 5)  # of which no forward was read
        found = schedules(whatif_of(run, None, steps))
    assert found["1f1b"]["memory_bytes"] == 2 * KEPT[0]
    assert found["1f1b"]["peak_bytes"] == PEAK
    assert found["gpipe"]["memory_bytes"] == 4 * KEPT[1]
    assert found["gpipe"]["peak_bytes"] == (PEAK[0] + 2 * KEPT[0], PEAK[1] + 3 * KEPT[1])


def test_a_limit_of_memory_decides_what_is_possible(tmp_path: Path) -> None:
    with pipeline_run(tmp_path / "run", 1) as run:
        answer = whatif_of(run)
        found = schedules(answer, memory_gb=34.0)
        assert found["gpipe"]["reason"] == "its device 0 holds 4 micro-batches; 3 may be held"
        assert found["1f1b"]["reason"] == ""
        with pytest.raises(UserError, match="stage 0 needs 27 GB for one micro-batch, and 20 GB"):
            schedules(answer, memory_gb=20.0)


def test_without_such_forwards_no_bytes_are_given(tmp_path: Path) -> None:
    with pipeline_run(tmp_path / "run", -1) as run:
        answer = whatif_of(run)
        assert answer.memory is None
        assert schedules(answer)["gpipe"]["memory_bytes"] is None
        with pytest.raises(UserError, match="was not recorded"):
            schedules(answer, memory_gb=80.0)
