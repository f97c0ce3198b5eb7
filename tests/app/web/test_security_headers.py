"""Security headers of every answer."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings, Token
from tests.app.server.asgi import Client
from tests.app.server.guarded import SECRET


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/nothing", "/assets/x/nothing.mjs"])
def test_every_answer_carries_the_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_the_policy_lets_run_what_the_page_holds_and_nothing_else(client: Client) -> None:
    page = client.get("/run/job/overview")
    policy = page.headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert "unsafe" not in rules["script-src"]
    assert not re.search(r"https?:|\*|\bwss?:(?!//127\.0\.0\.1:8050[ ;])", policy)
    scripts = re.findall(r"<script(?![^>]*(?:src=|json))[^>]*>(.*?)</script>", page.text, re.DOTALL)
    assert scripts
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules["script-src"]
    assert not re.findall(r'(?:src|href)="(?!/)', page.text)  # all of it from here


def test_the_policy_names_the_sockets_of_this_host_and_no_other(hub: Hub, client: Client) -> None:
    def connects(tried: Client, host: str) -> str:
        policy = tried.get("/", host=host).headers["content-security-policy"]
        return re.search(r"connect-src ([^;]*);", policy)[1].strip()  # type: ignore[index]

    assert connects(client, "localhost:9000") == "'self' ws://localhost:9000 wss://localhost:9000"
    assert connects(client, "localhost; script-src *") == "'self'"
    public = Client(
        make_app(
            hub, settings=Settings(public_url="https://hub.example.org/p", tokens=(Token(SECRET),))
        )
    )
    assert "wss://hub.example.org" in connects(public, "127.0.0.1:8050")


def test_nothing_is_kept_by_guess(client: Client) -> None:
    assert client.get("/run/job/overview").headers["cache-control"] == "no-cache"
    assert client.get("/api/runs").headers["cache-control"].startswith("no-")


def test_refusals_carry_them_too(client: Client) -> None:
    assert "content-security-policy" in client.get("/", host="evil.example").headers
