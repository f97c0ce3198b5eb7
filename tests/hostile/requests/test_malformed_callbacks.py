"""Every callback of Dash with each part of its request malformed: a sentence, no traceback."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from dash import Dash

from app import view_state
from app.dash_shell import make_dash
from app.web.dash_requests import PATH, VALUES
from tests.app.one_run import hub_of_one_run
from tests.hostile.requests.malformed import BAD_TEXTS, mutants, some

ADDRESS, SEARCH = "/run/job/overview", "?attempt=0"
HONEST: dict[str, Any] = {
    "url.pathname": ADDRESS,
    "url.search": SEARCH,
    "view.data": {"path": ADDRESS, "search": SEARCH},
    "pulse.data": {"run": "job", "version": 1},
    "bar.data": "x",
    "found.data": "x",
    "findings-count.id": "findings-count",
    "about-news.data": {"shown": "x", "open": ["run"], "at": 1},
    "overview-timeline.children": {"props": {"id": "x"}, "type": "Section", "namespace": "html"},
    "breakdown-seen.data": True,
    "theme.data": "dark",
}
"""What the page sends."""


@pytest.fixture(scope="module")
def dash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dash]:
    with hub_of_one_run(tmp_path_factory.mktemp("runs")) as hub:
        made = make_dash(hub, "")
        made.server.test_client().get("/_dash-dependencies")
        yield made


def honest(dash: Dash, **values: Any) -> Iterator[dict[str, Any]]:
    """The request of every callback as the page sends it."""
    given = HONEST | {name.replace("__", "."): value for name, value in values.items()}

    def filled(wanted: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{**one, "value": given[f"{one['id']}.{one['property']}"]} for one in wanted]

    for name, known in dash.callback_map.items():
        out = known["output"]
        outputs = [
            {"id": one.component_id, "property": one.component_property}
            for one in (out if isinstance(out, list) else [out])
        ]
        first = known["inputs"][0]
        yield {
            "output": name,
            "outputs": outputs if isinstance(out, list) else outputs[0],
            "inputs": filled(known["inputs"]),
            "state": filled(known["state"]),
            "changedPropIds": [f"{first['id']}.{first['property']}"],
            "parsedChangedPropsIds": [],
        }


def statuses(dash: Dash, bodies: Iterator[Any], caplog: pytest.LogCaptureFixture) -> dict[int, int]:
    """How many answers had each status; fails at the first 500 and the first traceback."""
    client = dash.server.test_client()
    dash.server.config["PROPAGATE_EXCEPTIONS"] = False  # as behind a socket
    counts: dict[int, int] = {}
    for body in bodies:
        answer = client.post(PATH, data=json.dumps(body), content_type="application/json")
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        if answer.status_code == 400:
            assert len(answer.get_json()["error"]) < 400
        wrong = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert answer.status_code < 500, json.dumps(body)[:2000]
        assert not wrong, json.dumps(body)[:2000]
    return counts


def test_the_types_of_all_values_are_known(dash: Dash) -> None:
    wanted = {
        f"{one['id']}.{one['property']}"
        for known in dash.callback_map.values()
        for one in known["inputs"] + known["state"]
    }
    assert wanted == VALUES.keys() == HONEST.keys()


def test_what_the_page_sends_is_answered(dash: Dash, caplog: pytest.LogCaptureFixture) -> None:
    counts = statuses(dash, honest(dash), caplog)
    assert set(counts) <= {200, 204}
    assert sum(counts.values()) == len(dash.callback_map)


def test_no_malformed_request_fails(dash: Dash, caplog: pytest.LogCaptureFixture) -> None:
    bodies = [mutant for body in honest(dash) for mutant in mutants(body)]
    tried = some(bodies, 0, 5)
    counts = statuses(dash, iter(tried), caplog)
    assert set(counts) <= {200, 204, 400}
    assert counts[400] > len(tried) / 2


def test_no_malformed_address_fails(dash: Dash, caplog: pytest.LogCaptureFixture) -> None:
    names = [*view_state._FIELDS, "q.step", "m.view", "m.layer"]
    searches = [f"?{name}={text}" for n, name in enumerate(names) for text in some(BAD_TEXTS, n, 7)]
    paths = [f"/run/job/{page}" for page in view_state.PAGE_NAMES]
    paths += ["/run/" + quote(bad, safe="%") for bad in some(BAD_TEXTS, 0, 3)] + [
        "//",
        "/run//x",
        "x" * 9000,
    ]
    bodies = [
        body
        for path, search in [(ADDRESS, search) for search in searches] + [(p, "") for p in paths]
        for body in honest(
            dash,
            url__pathname=path,
            url__search=search,
            view__data={"path": path, "search": search},
        )
    ]
    counts = statuses(dash, iter(bodies), caplog)
    assert set(counts) <= {200, 204}


@pytest.mark.parametrize("search", ["?" + "&".join(["ranks=0-4095"] * 300), "?sql=" + "x" * 40_000])
def test_addresses_in_callbacks_are_as_short_as_those_of_requests(
    dash: Dash, search: str, caplog: pytest.LogCaptureFixture
) -> None:
    at = "?attempt=0"
    for given, stored in ((search, at), (at, search)):
        bodies = [
            body
            for body in honest(
                dash, url__search=given, view__data={"path": ADDRESS, "search": stored}
            )
            if search in json.dumps(body)
        ]
        assert statuses(dash, iter(bodies), caplog) == {400: len(bodies)} != {400: 0}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"\x00", b"9" * 5000]
)
@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "", "application/json; charset=x"]
)
def test_no_other_body_fails(
    dash: Dash, content: bytes, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = dash.server.test_client().post(PATH, data=content, content_type=kind)
    assert answer.status_code == 400
    assert not caplog.records
