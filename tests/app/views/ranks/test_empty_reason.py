"""Why a map of ranks shows no value."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.views.ranks.empty_reason import NO_STEP_TIMES, empty_reason
from app.views.ranks.scales import METRICS
from ingest.run import open_run
from tests.runs_builder import RunBuilder, collectives_only_run, two_rank_run


@pytest.mark.parametrize(
    ("metric", "attempt", "steps", "has_values", "reason"),
    [
        ("bubble", 3, None, False, "This run has no attempt 3."),
        ("bubble", 0, (7, 9), False, "No data for steps 7 to 9."),
        ("bubble", None, (7, 7), False, "No data for step 7."),
        ("bubble", None, (2, 9), False, "No values of “Idle” are recorded in steps 2 to 9."),
        ("bubble", None, None, False, "No values of “Idle” are recorded in this run."),
        ("bubble", None, None, True, "No rank has peers, so “Idle” cannot be compared."),
        (
            "slowdown",
            None,
            (1, 1),
            False,
            "“Slowdown” is unknown: it compares the compute of a rank with that of its peers, "
            "and in step 1 no rank has both.",
        ),
    ],
)
def test_of_a_run_with_steps(
    tmp_path: Path,
    metric: str,
    attempt: int | None,
    steps: tuple[int, int] | None,
    has_values: bool,
    reason: str,
) -> None:
    with open_run(two_rank_run(tmp_path / "two", num_steps=4).folder) as run:
        assert empty_reason(run, METRICS[metric], attempt, steps, has_values) == reason


def test_of_a_run_without_steps(tmp_path: Path) -> None:
    bubble = METRICS["bubble"]
    with open_run(collectives_only_run(tmp_path / "only").folder) as run:
        assert empty_reason(run, bubble, None, None, False) == NO_STEP_TIMES
    RunBuilder(tmp_path / "begun", 2).rank_files()
    with open_run(tmp_path / "begun") as run:
        assert empty_reason(run, bubble, None, None, False) == "No finished step yet."
