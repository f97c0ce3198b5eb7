"""Which part of a view a run has: the rest is left out and noted."""

from __future__ import annotations

import pytest

from app.share.shown_view import shown_view
from app.view_state import View
from ingest.errors import UserError


def test_without_a_choice_the_timeline_is_that_of_the_finding(hub):
    shown = shown_view(hub, View("slow"))
    first = shown.finding.first_step
    assert (shown.timeline.rank, shown.timeline.ranks) == (5, (1, 5, 4, 7))
    assert shown.timeline.steps == (first, first + 1)
    assert (shown.attempt, shown.steps, shown.notes) == (0, (5, 13), ())


@pytest.mark.parametrize("chosen", [{"ranks": (2,)}, {"rank": 2}, {"steps": (3, 4)}, {"t": (1, 2)}])
def test_a_chosen_part_is_kept(hub, chosen):
    view = View("slow", "timeline", **chosen)
    shown = shown_view(hub, view)
    assert (shown.timeline, shown.notes) == (view, ())
    assert shown.finding is not None


def test_a_window_without_length_is_no_window(hub):
    assert shown_view(hub, View("slow", "timeline", t=(7, 7))).timeline.t is None


def test_what_the_run_lacks_is_left_out_and_noted(hub):
    view = View("slow", "timeline", attempt=4, ranks=(2, 99), rank=99, steps=(50, 60))
    shown = shown_view(hub, view)
    assert (shown.view.attempt, shown.attempt, shown.view.ranks) == (None, 0, (2,))
    assert (shown.view.rank, shown.view.steps) == (None, None)
    assert any("attempt 4" in note for note in shown.notes)


def test_a_finding_that_is_gone_is_noted(hub):
    shown = shown_view(hub, View("slow", finding="slow_worker-0-3-7"))
    assert "no longer exists" in shown.notes[0]
    assert shown.finding.culprits[0].rank == 5


def test_steps_of_an_earlier_attempt_choose_that_attempt(hub):
    assert shown_view(hub, View("again", "timeline", steps=(1, 2))).attempt == 0
    assert shown_view(hub, View("again")).attempt == 1
    with pytest.raises(UserError, match="no run 'nobody'"):
        shown_view(hub, View("nobody"))
