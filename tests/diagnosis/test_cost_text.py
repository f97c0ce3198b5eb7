"""The words for a cost: rounding, steps and how it was found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnosis.cost_text import cost_line, cost_text, hours_text, share_text
from diagnosis.findings import MEASURED, Cost, Evidence, Finding

COST = Cost(24.04, 160.0, num_steps=32, num_ranks=16, basis=MEASURED)
FINDING = Finding(
    kind="slow_worker",
    attempt=0,
    severity="urgent",
    confidence="high",
    title="Rank 5 is slow",
    text="It is.",
    first_step=9,
    last_step=40,
    ongoing=True,
    cost=COST,
    evidence=(Evidence("It takes 2 ms.", 2.0, "ms", "rank_phases"),),
    alternatives=(),
    next_step="Look.",
)


@pytest.mark.parametrize(
    ("share", "text"), [(0.15024, "15 %"), (0.0049, "0.5 %"), (0.0, "0 %"), (1.0, "100 %")]
)
def test_shares(share: float, text: str) -> None:
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (0.00001, "0.00001 rank-hours"),
        (0.0000029, "less than 0.00001 rank-hours"),
        (0.00342, "0.0034 rank-hours"),
        (0.0, "0 rank-hours"),
        (1.04, "1 rank-hour"),
        (2.345, "2.3 rank-hours"),
        (12345.6, "12,346 rank-hours"),
    ],
)
def test_rank_hours(hours: float, text: str) -> None:
    assert hours_text(hours) == text


def test_little_is_not_rounded_to_nothing() -> None:
    cost = Cost(1.3, 16.0, num_steps=1, num_ranks=8)
    assert cost.rank_hours == 2.9e-6
    assert "; less than 0.00001 rank-hours in " in cost_line(replace(FINDING, cost=cost))


def test_the_sentence_and_the_line_have_the_same_numbers() -> None:
    assert cost_text(COST, ongoing=True) == "Steps take 24 ms longer for it, 15 % of their time."
    nothing = replace(COST, ms_per_step=0.0)
    assert cost_text(nothing, ongoing=False) == (
        "Steps took no longer for it, as far as can be measured."
    )
    assert cost_line(FINDING) == (
        "24 ms per step, 15 % of step time; 0.0034 rank-hours in steps 9 to 40; wall time, "
        "measured against steps without it"
    )


def test_an_estimate_and_episodes_are_named_as_such() -> None:
    estimate = Cost(24.04, 160.0, num_steps=12, num_ranks=16)
    assert cost_text(estimate, ongoing=False).startswith("Steps took about 24 ms longer")
    finding = replace(FINDING, cost=estimate, episodes=((9, 14), (35, 40)))
    assert " in 12 of steps 9 to 40; wall time, estimated" in cost_line(finding)
    assert cost_line(replace(FINDING, cost=None)) == ""
