"""Foreign hosts, foreign origins and missing roles are refused, on every route and socket."""

from __future__ import annotations

import re
from socket import gethostname

import pytest
from starlette.requests import Request

from app.settings import Role, Settings, Token
from app.web.caller import ANONYMOUS_SESSION, Forbidden, require
from tests.app.server.asgi import LOCAL, Client
from tests.app.server.guarded import PAGE, SECRET, SOCKET, VIEW, client, with_two_tokens


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:9000",
        "127.0.0.1:1234",
        "[::1]:8050",
        "LOCALHOST:8050",
        "127.9.9.9",
        "localhost.:8050",
    ],
)
def test_any_port_of_this_machine_may_be_forwarded_here(host: str) -> None:
    tried = client(Settings())
    assert tried.get("/", host=host).status == 200
    assert tried.opens(SOCKET, host=host, origin=f"http://{host}")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8050",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.168.1.7:8050",
        "localhost@evil.example",
        "evil.example/localhost",
        "",
        "localhost:x",
        "0x7f.1",
        "2130706433",
        "evil.example\\@localhost",
        "localhost#evil.example",
        "[::1",
    ],
)
def test_a_foreign_host_is_refused_everywhere(host: str) -> None:
    tried = client(Settings())
    for path in ("/", "/healthz", "/metrics", "/assets/x/main.mjs"):
        answer = tried.get(path, host=host)
        assert answer.status == 403
        assert "--public-url" in answer.json()["error"]
    assert not tried.opens(SOCKET, host=host)


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:3000",
        "null",
        "http://127.0.0.1",
        "file://",
        "",
        "http://127.0.0.1:8050.evil.example",
        "https://evil.example:8050",
        "http://localhost:8050",
    ],
)
def test_a_foreign_origin_is_refused_everywhere(origin: str) -> None:
    tried = client(Settings())
    assert tried.get("/", origin=origin).status == 403
    assert tried.get("/healthz", origin=origin).status == 403
    assert tried.post("/_dash-update-component", origin=origin).status == 403
    assert not tried.opens(SOCKET, origin=origin)


def test_its_own_pages_may_ask() -> None:
    tried = client(Settings())
    assert tried.post("/x", origin=f"http://{LOCAL}").status == 200
    assert tried.post("/x", host="localhost:9000", origin="http://localhost:9000").status == 200
    assert tried.post("/x", host="localhost", origin="http://localhost").status == 200
    assert tried.opens(SOCKET, origin=f"http://{LOCAL}")
    assert tried.opens(SOCKET)  # a script: every browser sends the origin


API = (
    "/api/runs",
    "/api/run/a/grid",
    "/live/frames",
    "/metrics",
    "/healthz",
    "/assets/x/a.mjs",
    "/_dash-layout",
    "/_dash-update-component",
    "/_favicon.ico",
    "/agent",
    "/runs",
    "//run/a",
)
PAGES = ("/", "/run/a", "/run/a/overview")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_link_to_pages_and_to_nothing_else(site: str) -> None:
    for tried in (client(Settings()), client(Settings(base="/p"))):
        for path in PAGES:
            assert tried.get(path, sec_fetch_site=site, **PAGE).status == 200
            assert tried.post(path, sec_fetch_site=site, **PAGE).status == 403
        for path in API:
            answer = tried.get(path, sec_fetch_site=site, **PAGE)
            assert answer.status == 403
            assert "may only link to pages" in answer.json()["error"]
    based = client(Settings(base="/p"))
    assert based.get("/p/run/a", sec_fetch_site=site, **PAGE).status == 200
    assert based.get("/p/api/runs", sec_fetch_site=site, **PAGE).status == 403
    assert based.get("/p/run/../api/runs", sec_fetch_site="same-origin").status == 200


@pytest.mark.parametrize(
    "kind",
    [
        ("navigate", "iframe"),
        ("navigate", "frame"),
        ("navigate", "embed"),
        ("navigate", "object"),
        ("no-cors", "image"),
        ("no-cors", "script"),
        ("no-cors", "style"),
        ("no-cors", "empty"),
        ("no-cors", "document"),
        ("cors", "empty"),
        ("nested-navigate", "document"),
        ("navigate", "empty"),
        ("same-origin", "worker"),
        ("websocket", "empty"),
    ],
)
def test_another_site_may_not_embed_nor_fetch_a_page(kind: tuple[str, str]) -> None:
    tried = client(Settings())
    for path in (*PAGES, *API):
        for site in ("cross-site", "same-site"):
            headers_sent = {
                "sec_fetch_site": site,
                "sec_fetch_mode": kind[0],
                "sec_fetch_dest": kind[1],
            }
            assert tried.get(path, **headers_sent).status == 403
            assert not tried.opens(path, **headers_sent)


def test_another_site_may_not_fetch_a_page_ahead() -> None:
    ahead = PAGE | {"sec_fetch_site": "cross-site", "sec_purpose": "prefetch;prerender"}
    assert client(Settings()).get("/run/a/overview", **ahead).status == 403
    own = ahead | {"sec_fetch_site": "same-origin"}
    assert client(Settings()).get("/run/a/overview", **own).status == 200


def test_a_public_url_names_another_host_and_its_origin() -> None:
    settings = Settings(
        public_url="https://hub.example.org/user/x/proxy/8050", tokens=(Token(SECRET),)
    )
    assert settings.base == "/user/x/proxy/8050"
    tried = client(settings)
    host, origin = "hub.example.org", "https://hub.example.org"
    tried.get(f"/user/x/proxy/8050/?token={SECRET}", host=host)
    tried.cookies["rankscope_8050"] = tried.cookies["rankscope_default"]
    assert tried.post("/user/x/proxy/8050/x", host=host, origin=origin).json() == {"path": "/x"}
    assert tried.post("/x", origin=origin).json() == {"path": "/x"}  # the proxy set its own Host
    assert tried.opens(SOCKET, host=host, origin=origin)
    assert tried.get("/", host="other.example.org").status == 403
    assert tried.post("/x", host=host, origin="https://other.example.org").status == 403


def test_all_addresses_means_addresses_and_no_names() -> None:
    tried = client(Settings(host="0.0.0.0", tokens=(Token(SECRET),)))
    for host in ("192.168.1.7:8050", "[fe80::1]:8050", "localhost", gethostname()):
        assert tried.get("/healthz", host=host).status == 200
    assert tried.get("/healthz", host="evil.example").status == 403


@pytest.fixture
def guarded() -> Client:
    return with_two_tokens()


def test_a_role_does_what_it_may(guarded: Client) -> None:
    viewer = {"authorization": f"Bearer {VIEW}"}
    assert guarded.get("/api/runs", **viewer).status == 200
    refused = guarded.post("/upload", **viewer)
    assert refused.status == 403
    assert "needs the role uploader, yours is viewer" in refused.json()["error"]
    assert guarded.post("/upload", authorization=f"Bearer {SECRET}").status == 200


def test_who_passed_no_guard_has_no_role() -> None:
    with pytest.raises(Forbidden, match="yours is none"):
        require(Request({"type": "http"}), Role.viewer)


def test_what_runs_something_needs_a_header_that_other_sites_cannot_send(guarded: Client) -> None:
    local = client(Settings())
    refused = local.post("/run-it", origin=f"http://{LOCAL}")
    assert refused.status == 403
    assert "X-Rankscope: 1" in refused.json()["error"]
    assert local.post("/run-it", x_rankscope="").status == 403
    assert local.post("/run-it", x_rankscope="1").json() == {"session": ANONYMOUS_SESSION}
    assert local.post("/run-it", authorization="Bearer x").status == 403  # there is no token here
    guarded.get(f"/p/?token={SECRET}")
    assert guarded.post("/run-it").status == 403
    assert guarded.post("/run-it", x_rankscope="1").status == 200
    program = guarded.post("/run-it", authorization=f"Bearer {VIEW}").json()["session"]
    assert re.fullmatch("[0-9a-f]{64}", program)
