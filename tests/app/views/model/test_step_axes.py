"""Steps on an axis of time or tokens: attempts, replicas, steps without tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.views.model.step_axes import Axis, edges_on, step_axes
from ingest.run import open_run
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout

Tokens = Callable[[int, int], float | None]


def axes_of(
    folder: Path, tokens: Tokens, attempts: tuple[range, ...], for_attempt: int | None = None
) -> dict[str, Axis]:
    """Of a run of two replicas of two ranks, whose steps begin 1 s after each other."""
    run = RunBuilder(folder / "run", 4, ParallelLayout.from_sizes(tp=2, dp=2))
    for attempt, steps in enumerate(attempts):
        for step in steps:
            begin_us = 1e6 * (step + 1000 * attempt)
            for rank in range(4):
                run.add(
                    "steps",
                    rank,
                    step,
                    attempt,
                    start_ns=round(begin_us * 1000),
                    dur_ns=10**9,
                    tokens=tokens(attempt, step),
                )
        run.rank_files(attempt)
    run.publish()
    with open_run(folder / "run") as opened:
        return step_axes(opened, for_attempt)


def test_tokens_of_replicas_are_summed_and_go_on_over_a_restart(tmp_path: Path) -> None:
    axes = axes_of(tmp_path, lambda attempt, _: 100.0 + attempt, (range(6), range(4, 8)))
    tokens, time = axes["tokens"], axes["time"]
    assert tokens.place_S.tolist() == [200, 400, 600, 800, 1002, 1204, 1406, 1608]
    assert time.steps_S.tolist() == [4, 5, 6, 7], "of one attempt"
    assert time.place_S.tolist() == [0, 1, 2, 3]
    assert time.places([4, 5.5, 9]).tolist() == [0, 1.5, 5], "beyond the last at its pace"


def test_an_earlier_attempt_does_not_know_of_a_later_one(tmp_path: Path) -> None:
    axes = axes_of(tmp_path, lambda attempt, _: 100.0 + attempt, (range(6), range(4, 8)), 0)
    assert axes["tokens"].place_S.tolist() == [200, 400, 600, 800, 1000, 1200]
    assert axes["time"].steps_S.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (lambda _, step: None, "logs no tokens per step"),
        (lambda _, step: 0.0, "logs no tokens per step"),
        (lambda _, step: None if step == 2 else 8.0, "1 of its 6 steps log no tokens"),
    ],
)
def test_tokens_that_are_not_logged_are_no_axis(
    tmp_path: Path, tokens: Tokens, message: str
) -> None:
    assert message in axes_of(tmp_path, tokens, (range(6),))["tokens"].why_not


def test_a_step_under_way_has_as_many_as_the_one_before(tmp_path: Path) -> None:
    axes = axes_of(tmp_path, lambda _, step: None if step == 5 else 8.0, (range(6),))["tokens"]
    assert (axes.why_not, axes.place_S.tolist()) == ("", [16, 32, 48, 64, 80, 96])


def test_columns_are_equally_wide_on_the_axis() -> None:
    place_S = np.array([0.0, 1, 2, 3, 4, 100])
    assert edges_on(place_S, 10).tolist() == list(range(7))
    assert edges_on(place_S, 3).tolist() == [0, 5, 6]
    assert edges_on(np.zeros(4), 2).tolist() == [0, 2, 4]
    assert edges_on(place_S[:0], 3).tolist() == [0]
