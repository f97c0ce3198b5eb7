"""The cookie: named by its port, found among damaged ones."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import Response

from app.access.cookies import cookie_name, cookies_of, set_cookie, visitor_of
from app.settings import Settings


def request(host: str = "localhost:8050", cookie: str = "") -> HTTPConnection:
    headers = [(b"host", host.encode()), (b"cookie", cookie.encode())]
    return HTTPConnection({"type": "http", "headers": headers, "path": "/", "query_string": b""})


def test_servers_on_two_ports_have_two_cookies() -> None:
    assert cookie_name(request("a:8050")) == "rankscope_8050"
    assert cookie_name(request("a:8051")) == "rankscope_8051"
    assert cookie_name(request("a")) == "rankscope_default"


def test_a_valid_cookie_is_found_among_others() -> None:
    visitor = "v" * 32
    cookie = f'a="; rankscope_8050=short; =; rankscope_8050={visitor}; rankscope_8051=other'
    assert cookies_of(request(cookie=cookie)) == ["short", visitor]
    assert visitor_of(request(cookie=cookie)) == visitor
    assert visitor_of(request(cookie="rankscope_8050=short")) is None


def test_a_cookie_is_secure_where_the_public_address_is() -> None:
    for settings, is_secure in (
        (Settings(), False),
        (Settings(public_url="https://127.0.0.1/x"), True),
    ):
        answer = Response()
        set_cookie(answer, request(), settings, "secret")
        header = answer.headers["set-cookie"]
        assert ("Secure" in header) is is_secure
        assert "HttpOnly" in header
        assert f"Path={settings.base}/" in header
