"""Refuses malformed requests for Dash callbacks and scripts with one sentence.

Dash passes whatever a client sent to a callback. Here a request must name a callback, with exactly
its inputs, states and outputs, and each value must have the type that the page gives it. An address
in it may be as long as that of a request: a callback would parse a longer one for minutes.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

import msgspec
from dash import Dash
from dash.exceptions import DependencyException
from flask import Response, jsonify, request

from app.web.request_limits import too_long

PATH = "/_dash-update-component"


class _Address(TypedDict):
    """Store `view`."""

    path: NotRequired[str | None]
    search: NotRequired[str | None]


class _AboutNews(TypedDict):
    """Store `about-news`: what the panel shows and which of its parts are open."""

    shown: NotRequired[str | None]
    open: NotRequired[list[str] | None]


class _Properties(TypedDict):
    id: NotRequired[str | None]


class _Element(TypedDict):
    """An element of the page as Dash has it in the browser."""

    props: NotRequired[_Properties]


VALUES: dict[str, Any] = {
    "url.pathname": str | None,
    "url.search": str | None,
    "view.data": _Address | None,
    "pulse.data": Any,
    "bar.data": Any,
    "found.data": str | None,
    "findings-count.id": str | None,
    "about-news.data": _AboutNews | None,
    "overview-timeline.children": _Element | None,
    "breakdown-seen.data": bool | None,
    "theme.data": str | None,
}
"""Type of each callback argument, by ID.PROPERTY; Any: callbacks only use that it changed."""


class _Property(msgspec.Struct):
    id: str
    property: str
    value: Any = None

    @property
    def name(self) -> str:
        return f"{self.id}.{self.property}"


class _Callback(msgspec.Struct):
    """Body of a callback's request."""

    output: str
    inputs: list[_Property]
    outputs: _Property | list[_Property] = []
    state: list[_Property] = []
    changedPropIds: list[str] = []


_DECODER = msgspec.json.Decoder(_Callback)


def refuse_malformed(dash: Dash) -> None:
    """Answer 400 (404 for scripts) and one sentence where Dash would fail with a traceback."""

    @dash.server.before_request
    def refuse() -> tuple[Response, int] | None:
        if request.method != "POST" or request.path != PATH:
            return None
        problem = _problem(dash.callback_map)
        return None if problem is None else (jsonify({"error": problem}), 400)

    @dash.server.errorhandler(DependencyException)
    def no_such_script(_error: DependencyException) -> tuple[Response, int]:
        text = "There is no such script. Reload: this page is out of date."
        return jsonify({"error": text}), 404


def _problem(known: dict[str, Any]) -> str | None:
    """What is wrong with a callback's request, None if nothing; raises RequestEntityTooLarge."""
    try:
        body = _DECODER.decode(request.get_data()) if request.is_json else None
    except (ValueError, RecursionError) as error:
        return f"A callback's request is a JSON object with output and inputs; this is not: {error}"
    if body is None:
        return "A callback's request is a JSON object with output and inputs, as application/json."
    if body.output not in known:
        return "There is no such callback. Reload: this page is out of date."
    wanted = known[body.output]
    outputs = body.outputs if isinstance(body.outputs, list) else body.outputs.name
    named = [output.name for output in outputs] if isinstance(outputs, list) else outputs
    if named != _names_of(wanted["output"]):
        return "The outputs of this callback's request are not the callback's. Reload the page."
    for kind, sent in (("inputs", body.inputs), ("state", body.state)):
        if [value.name for value in sent] != [f"{w['id']}.{w['property']}" for w in wanted[kind]]:
            return f"The {kind} of this callback's request are not the callback's. Reload the page."
    return next(filter(None, map(_wrong_value, [*body.inputs, *body.state])), None)


def _names_of(output: Any) -> list[str] | str:
    """ID.PROPERTY of a callback's outputs, or of its only output."""
    return list(map(str, output)) if isinstance(output, list) else str(output)


def _wrong_value(sent: _Property) -> str | None:
    try:
        msgspec.convert(sent.value, VALUES[sent.name])
    except (ValueError, RecursionError) as error:
        return f"{sent.name} of this callback's request is not what the page sends: {error}"
    return next(filter(None, (too_long(text.encode()) for text in _addresses(sent))), None)


def _addresses(sent: _Property) -> list[str]:
    """Paths and queries in a value."""
    if sent.name not in ("url.pathname", "url.search", "view.data"):
        return []
    parts = sent.value.values() if isinstance(sent.value, dict) else [sent.value]
    return [text for text in parts if isinstance(text, str)]
