"""What the live page and a shared file both say of a timeline: attempt, window, words of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.view_state import View
from app.views.timeline.lanes import Place
from app.views.timeline.window import Extent, Window, default_window, is_relative, window_of_steps
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop


def attempt_for(run: Run, view: View) -> int:
    """The attempt of the view, else the newest that has the last of its steps, else the newest."""
    if view.attempt is not None:
        return view.attempt
    return run.newest_attempt if view.steps is None else run.attempt_with(view.steps[1])


def window_for(
    run: Run, attempt: int, ranks: list[int], view: View, have: Extent, stop: Stop | None = None
) -> Window:
    """The window of time of the view, else that of its steps, else the newest steps.

    Raises UserError where the window is empty or these ranks have no such step.
    """
    if view.t is not None:
        if view.t[1] <= view.t[0]:
            raise UserError("the window of time ends before it begins")
        newest = have.last_step if have.finished_step is None else have.finished_step
        step = (view.steps[1] if view.steps else newest) if is_relative(run) else None
        return Window(*view.t, step)
    if view.steps is not None:
        return window_of_steps(run, attempt, ranks, view.steps, stop)
    return default_window(run, attempt, ranks, have, stop)


def tile_meta(
    run: Run, attempt: int, lanes: Sequence[Place], window: Window, have: Extent
) -> dict[str, Any]:
    """What a tile says besides what is drawn: window, attempt, clock and lanes."""
    return {
        "from": window.begin_ns,
        "to": window.end_ns,
        "relative_step": window.step,
        "lanes": [_described(place) for place in lanes],
        "attempt": attempt,
        "t0_ns": str(run.info["created_ns"]),
        "clock": run.info["clock"],
        "extent": {key: value for key, value in asdict(have).items() if key != "alone"},
        "only_comm": all(place.rank in have.alone for place in lanes),
    }


def _described(place: Place) -> dict[str, Any]:
    return {
        "rank": place.rank,
        "label": place.label,
        "host": place.host,
        "err_ns": place.err_ns,
        "aligned": place.shift_min_ns is not None,
        "place": [place.pp, place.dp, place.cp, place.tp],
    }
