"""What evidence asks for, and what its link shows."""

from __future__ import annotations

import pytest

from diagnosis.statistics.evidence_links import (
    first_two,
    pipeline_view,
    question_params,
    timeline_view,
)
from tests.diagnosis.statistics.test_shared_location import ranks


def test_what_narrows_a_question_stands_between_steps_and_attempt() -> None:
    assert question_params(3, 9, 1) == (("step_min", 3), ("step_max", 9), ("attempt", 1))
    narrowed = dict(question_params(3, 9, 1, layer=2, tensor="mlp"))
    assert list(narrowed) == ["step_min", "step_max", "layer", "tensor", "attempt"]
    assert (narrowed["layer"], narrowed["tensor"]) == (2, "mlp")


def test_the_timeline_shows_lanes_and_selects_one() -> None:
    shown = {
        "page": "timeline",
        "attempt": 1,
        "rank": 5,
        "ranks": (4, 5),
        "steps": (8, 9),
    }
    assert dict(timeline_view(1, 5, (4, 5), (8, 9))) == shown


def test_a_rank_is_shown_among_its_peers_and_the_next_stages() -> None:
    """Rank 5 is pp 0, dp 2, tp 1: 4 shares its work, 3 and 7 do the same work, 13 comes next."""
    view = dict(pipeline_view(ranks(), 5, 0, (8, 9)))
    assert (view["rank"], view["ranks"]) == (5, (5, 3, 4, 7, 13))
    assert dict(pipeline_view(ranks(), 13, 0, (8, 9)))["ranks"] == (5, 13, 11, 12, 15)


def test_without_a_layout_another_rank_is_shown_next_to_it() -> None:
    alone = dict(pipeline_view(ranks(known_layout=False), 5, 0, (8, 9)))
    assert alone["ranks"] == (5, 4)


@pytest.mark.parametrize(("last", "shown"), [(20, (8, 9)), (9, (8, 9)), (8, (8, 8))])
def test_of_an_episode_the_first_two_steps_are_shown(last: int, shown: tuple[int, int]) -> None:
    assert first_two(8, last) == shown
