"""Answers of the server that a shared file needs for What-if, for the changes of its link alone.

Keys are routes; only timelines of schedules have a parameter, their name. A step or a timeline that
would take too much room is left out, and the page says so.
"""

from __future__ import annotations

import json
from typing import Any

from app.analysis.whatif_answers import WhatIfAnswers
from app.runs.hub import Hub
from app.share.shown_view import ShownView
from app.views.whatif.schedules import Asked
from app.web.arrays import pack_arrays
from ingest.errors import UserError
from ingest.stopping import Stop

Answers = dict[str, Any]

_MOST_REPLAY = 300_000
"""Bytes of the step with and without stragglers, before base64."""

_MOST_TIMELINES = 300_000
"""Characters of the timelines of all schedules together."""


def whatif_answers(hub: Hub, shown: ShownView, stop: Stop | None) -> Answers:
    """What the file has of the page; raises UserError."""
    view = shown.view
    asking = WhatIfAnswers(hub, shown.run_name, view.attempt, view.steps, stop)
    numbers = asking.numbers() | {"is_outdated": False}  # a file stays as it is
    if "reason" in numbers:
        return {"what-if": numbers}
    answers: Answers = {
        "what-if": numbers,
        "what-if/costs": asking.costs(),
        "what-if/causes": asking.causes(),
        "what-if/advice": asking.advice(),
    }
    made = asking.replay(view.replay, view.rank)
    packed = pack_arrays(made.arrays, made.meta)
    if len(packed) <= _MOST_REPLAY:
        answers["what-if/replay"] = packed
    return answers | _schedules(asking, dict(view.pipeline))


def _schedules(asking: WhatIfAnswers, pipeline: dict[str, str]) -> Answers:
    """Predictions and timelines: of the schedule that the link chose first, then the fastest."""
    try:
        asked = Asked.of_link(pipeline)
        found = asking.schedules(asked)
    except UserError as error:
        return {"what-if/schedules": {"refused": str(error)}}
    known = [one for one in found.get("schedules", ()) if one["expected_s"] is not None]
    known.sort(key=lambda one: one["expected_s"] * one["num_devices"])
    names = [one["name"] for one in known]
    names.sort(key=lambda name: name != pipeline.get("schedule"))
    answers: Answers = {"what-if/schedules": found}
    room = _MOST_TIMELINES
    for name in names:
        timeline = asking.schedule(asked, name)
        room -= len(json.dumps(timeline))
        if room < 0:
            break
        answers[f"what-if/schedule?name={name}"] = timeline
    return answers
