"""Requests for callbacks and scripts that no page of ours sends get a sentence."""

from __future__ import annotations

from typing import Any

from dash import Dash
from dash.exceptions import DependencyException
from flask import Response, jsonify, request

PATH = "/_dash-update-component"


def refuse_malformed(dash: Dash) -> None:
    """Answer 400, for scripts 404, and one sentence where Dash would fail with a traceback."""

    @dash.server.before_request
    def refuse() -> tuple[Response, int] | None:
        if request.method != "POST" or request.path != PATH:
            return None
        problem = _problem(_body(), dash.callback_map)
        return None if problem is None else (jsonify({"error": problem}), 400)

    @dash.server.errorhandler(DependencyException)
    def no_such_script(_error: DependencyException) -> tuple[Response, int]:
        said = "There is no such script; is the page older than the server? Load it again."
        return jsonify({"error": said}), 404


def _body() -> Any:
    """The JSON that was sent, None where it is none; raises RequestEntityTooLarge."""
    try:
        return request.get_json(silent=True)
    except RecursionError:  # brackets in brackets in brackets
        return None


def _problem(body: Any, known: dict[str, Any]) -> str | None:
    """What is wrong with the body of a callback's request, None: nothing."""
    if not isinstance(body, dict) or not isinstance(body.get("output"), str):
        return "A callback's request is a JSON object with output and inputs; this is none."
    if body["output"] not in known:
        return "There is no such callback; is the page older than the server? Load it again."
    wanted = known[body["output"]]
    for name in ("inputs", "state"):
        if not _are_properties(body.get(name, []), len(wanted[name])):
            return f"The {name} of this callback's request are not those it takes; load the page."
    changed = body.get("changedPropIds", [])
    if not isinstance(changed, list) or not all(isinstance(one, str) for one in changed):
        return "The changedPropIds of a callback's request are a list of names."
    return None


def _are_properties(given: Any, num_wanted: int) -> bool:
    """Whether it is a list of that many {id, property, ...}, or of lists of them (patterns)."""
    if not isinstance(given, list) or len(given) != num_wanted:
        return False
    flat = [one for part in given for one in (part if isinstance(part, list) else [part])]
    return all(isinstance(one, dict) and {"id", "property"} <= one.keys() for one in flat)
