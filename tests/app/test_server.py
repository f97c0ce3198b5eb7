"""The whole application: what is no route, prefixes, files, failures as sentences."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from app.web.assets import assets_version
from tests.app.server.asgi import Client


def test_an_unknown_route_of_data_is_no_page(client: Client) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = client.request(method, "/api/run/job/nothing")
        assert answer.status == 404
        assert "There is no /api/run/job/nothing" in answer.json()["error"]


def test_the_page_is_the_same_below_a_prefix(hub: Hub) -> None:
    tried = Client(make_app(hub, settings=Settings(base="/user/x/proxy/8050")))
    kept = tried.get("/user/x/proxy/8050/run/job/overview")
    stripped = tried.get("/run/job/overview")
    assert kept.status == stripped.status == 200
    by_chance = re.compile(r'"end_id":"[^"]*"')
    assert by_chance.sub("", kept.text) == by_chance.sub("", stripped.text)
    links = re.findall(r'(?:src|href)="([^"]+)"', kept.text)
    assert links
    assert all(link.startswith("/user/x/proxy/8050/") for link in links)
    for link in links:
        assert tried.get(link).status == 200, link
        assert tried.get(link.removeprefix("/user/x/proxy/8050")).status == 200, link


def test_assets_are_kept_for_ever_under_their_version(client: Client) -> None:
    answer = client.get(f"/assets/{assets_version()}/main.mjs")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    other = client.get("/assets/0123456789ab/main.mjs")
    assert (other.status, other.headers["cache-control"]) == (200, "no-cache")


def test_a_file_is_read_once_and_only_under_its_own_name(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, names = f"/assets/{assets_version()}", ("css/base.css", "css/../css/base.css")
    first, other = (client.get(f"{folder}/{name}") for name in names)
    assert (first.status, first.body) == (200, other.body)
    monkeypatch.setattr("app.server.asset", lambda path: None)
    again, other = (client.get(f"{folder}/{name}") for name in names)
    assert (again.status, again.body, other.status) == (200, first.body, 404)


def test_a_refusal_is_a_sentence_with_its_status(client: Client) -> None:
    for method, target, status, sentence in (
        ("GET", "/api/run/nobody/findings", 400, "there is no run 'nobody'"),
        ("POST", "/api/run/job/query", 403, "X-Rankscope"),
    ):
        answer = client.request(method, target)
        assert (answer.status, sentence in answer.json()["error"]) == (status, True), answer.text


def test_a_bug_is_a_sentence_too(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy() -> list[str]:
        raise RuntimeError("dictionary changed size")

    monkeypatch.setattr(hub, "problems", buggy)
    sent: list[dict[str, Any]] = []
    scope = Client(None).scope("http", "/healthz", {}) | {"method": "GET"}  # type: ignore[arg-type]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(RuntimeError, match="dictionary"):  # for the server's log
        asyncio.run(make_app(hub, settings=Settings())(scope, receive, send))
    assert sent[0]["status"] == 500
    assert b"dictionary" not in sent[1]["body"]
    assert b'{"error":"' in sent[1]["body"]
