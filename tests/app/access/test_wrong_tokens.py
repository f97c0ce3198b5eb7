"""A valid token opens the server, once as a link; wrong ones are refused and limited."""

from __future__ import annotations

import re

import pytest

from app.access.wrong_tokens import MOST_AT_ONCE
from app.settings import Role, Settings, Token
from tests.app.server.asgi import Client
from tests.app.server.guarded import HTML, PAGE, SECRET, SOCKET, VIEW, client, with_two_tokens


@pytest.fixture
def guarded() -> Client:
    return with_two_tokens()


def test_without_a_token_nothing_but_health_answers(guarded: Client) -> None:
    for path in ("/", "/metrics", "/api/runs", "/p/run/a/overview", "/assets/v/main.mjs", "/p"):
        answer = guarded.get(path)
        assert answer.status == 401
        assert answer.json() == {"error": "This server needs a token."}
    assert guarded.post("/_dash-update-component").status == 401
    assert guarded.get("/healthz").status == 200
    assert guarded.get("/p/healthz").status == 200
    assert guarded.get("/healthz/").status == 401
    assert guarded.get("/x/../healthz").status == 401
    assert not guarded.opens(SOCKET)


@pytest.mark.parametrize("secret", ["", "correct-horse", SECRET + "x", "%E9" * 9, "viewer=" + VIEW])
def test_a_wrong_token_opens_nothing(guarded: Client, secret: str) -> None:
    assert guarded.get("/", authorization=f"Bearer {secret}").status == 401
    assert guarded.get("/", authorization=f"Basic {SECRET}").status == 401
    assert not guarded.opens(SOCKET, authorization=f"Bearer {secret}")
    answer = guarded.get(f"/?token={secret}")
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_the_token_of_a_link_becomes_a_cookie(guarded: Client) -> None:
    answer = guarded.get(f"/p/run/a%20b/overview?rank=5&token={SECRET}&q=x%26y")
    assert answer.status == 303
    assert answer.headers["location"] == "/p/run/a%20b/overview?rank=5&q=x%26y"
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "Path=/p/", "SameSite=strict"):
        assert part in cookie
    assert SECRET not in cookie
    assert "Secure" not in cookie
    assert guarded.get("/p/api/runs").status == 200
    assert guarded.opens(f"/p{SOCKET}")
    guarded.cookies = dict.fromkeys(guarded.cookies, "0" * 64)
    assert guarded.get("/p/api/runs").status == 401


def test_a_token_of_a_post_or_of_a_socket_is_not_taken(guarded: Client) -> None:
    assert guarded.post(f"/upload?token={SECRET}").status == 401
    assert not guarded.opens(f"{SOCKET}?token={SECRET}")


def test_behind_tls_the_cookie_is_secure() -> None:
    settings = Settings(public_url="https://hub.example.org/", tokens=(Token(SECRET),))
    answer = client(settings).get(f"/?token={SECRET}", host="hub.example.org")
    assert "Secure" in answer.headers["set-cookie"]
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("path", ["/run//evil.example", "/run/%5Cevil.example", "/run/..//evil"])
def test_the_way_back_stays_on_this_server(path: str) -> None:
    for base in ("", "/p"):
        tried = client(Settings(base=base, tokens=(Token(SECRET),)))
        location = tried.get(f"{path}?token={SECRET}").headers["location"]
        assert location.startswith(f"{base}/run/")
        assert "\\" not in location


@pytest.mark.parametrize("path", ["//evil.example/x", "/%5Cevil.example", "/p//evil.example"])
def test_only_pages_take_a_token_and_lead_on(path: str) -> None:
    for base in ("", "/p"):
        answer = client(Settings(base=base, tokens=(Token(SECRET),))).get(f"{path}?token={SECRET}")
        assert answer.status == 401
        assert "location" not in answer.headers


def test_scripts_send_a_bearer_token(guarded: Client) -> None:
    assert guarded.get("/x", authorization=f"Bearer {SECRET}").status == 200
    assert guarded.opens(SOCKET, authorization=f"bearer {SECRET}")


def test_a_person_gets_a_page_that_asks(guarded: Client) -> None:
    target = "/p/run/a/overview?rank=5&metric=%22%3E%3Cscript%3E"
    answer = guarded.get(target, sec_fetch_site="none", **HTML)
    assert answer.status == 401
    assert '<form action="/p/run/a/overview">' in answer.text
    assert '<input type="hidden" name="rank" value="5">' in answer.text
    assert "<script>" not in answer.text
    wrong = guarded.get(f"{target}&token=wrong-wrong", **HTML)  # over plain HTTP: no Sec-Fetch-Site
    assert "This token is not valid here." in wrong.text
    assert '<form action="/p/run/a/overview">' in wrong.text


def test_a_link_from_elsewhere_comes_again_from_here_once(guarded: Client) -> None:
    """Browsers keep a strict cookie back along a link of another site, not after a refresh."""
    target = "/p/run/a/overview?rank=5"
    again = ""
    for headers in (HTML, HTML | {"sec_fetch_site": "cross-site"} | PAGE):
        first = guarded.get(target, **headers)
        assert first.status == 401
        match = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', first.text)
        assert match
        again = match[1].replace("&amp;", "&")
        assert again.startswith(target)
        second = guarded.get(again, **headers)
        assert "<form" in second.text  # no loop
        assert "again" not in second.text
    guarded.get(f"/p/?token={SECRET}")
    known = guarded.get(again, **HTML)
    assert (known.status, known.headers["location"]) == (303, target)
    assert guarded.get(target, **HTML).status == 200


@pytest.mark.parametrize(
    "path", ["/p/api/runs", "/p/live/frames", "/p/metrics", "/p/runs", "/p//x"]
)
def test_no_page_leads_to_an_invalid_address(guarded: Client, path: str) -> None:
    """Neither without a token, nor with one, nor by the parameter of a page loaded again."""
    for more in ("", "?rankscope_again=1", f"?token={SECRET}", "?token=wrong-wrong-wrong-"):
        for headers in (HTML, HTML | PAGE | {"sec_fetch_site": "none"}):
            answer = guarded.get(f"{path}{more}", **headers)
            assert answer.status == 401
            assert set(answer.json()) == {"error"}
            assert "set-cookie" not in answer.headers
    guarded.get(f"/p/?token={SECRET}")
    assert guarded.get(f"{path}?rankscope_again=1", **HTML).status == 200  # and leads nowhere


def wrong(tried: Client, number: int, **headers: str) -> list[int]:
    return [
        tried.get("/p/api/runs", authorization=f"Bearer wrong-{n}", **headers).status
        for n in range(number)
    ]


def test_wrong_tokens_are_limited_and_a_valid_one_never_is(guarded: Client) -> None:
    assert wrong(guarded, MOST_AT_ONCE) == [401] * MOST_AT_ONCE
    for target, headers in (
        ("/p/api/runs", {"authorization": "Bearer wrong"}),
        ("/p/?token=wrong-again", HTML),
    ):
        refused = guarded.get(target, **headers)
        assert refused.status == 429
        assert refused.headers["retry-after"] == "60"
        assert refused.headers["connection"] == "close"
        assert "A valid token is accepted at any time." in refused.json()["error"]
    assert not guarded.opens(f"/p{SOCKET}", authorization="Bearer wrong")
    assert guarded.get("/p/api/runs", authorization=f"Bearer {SECRET}").status == 200
    assert guarded.get("/p/api/runs").status == 401  # no token is not a wrong one
    assert guarded.get("/p/healthz").status == 200
    assert guarded.get(f"/p/?token={VIEW}").status == 303
    assert guarded.get("/p/api/runs").status == 200


def test_guesses_at_an_address_that_answers_everybody_are_wrong_tokens_too(guarded: Client) -> None:
    def is_known(secret: str) -> bool:
        answer = guarded.get("/p/healthz", authorization=f"Bearer {secret}")
        assert answer.status == 200
        return bool(answer.json()["is_known"])

    assert is_known(SECRET)
    for number in range(MOST_AT_ONCE):
        assert not is_known(f"wrong-{number}")
    assert wrong(guarded, 1) == [429]
    assert not is_known(SECRET)  # a right guess does not show any more
    assert guarded.get("/p/api/runs", authorization=f"Bearer {SECRET}").status == 200


def test_an_address_in_a_header_counts_behind_a_declared_proxy_only() -> None:
    tokens = (Token(SECRET),)
    for proxies, status in (((), 429), (("127.0.0.0/8", "10.0.0.7"), 401)):
        tried = client(Settings(base="/p", tokens=tokens, trusted_proxies=proxies))
        wrong(tried, MOST_AT_ONCE, x_forwarded_for="192.0.2.1")
        assert wrong(tried, 1, x_forwarded_for="192.0.2.1") == [429]
        assert wrong(tried, 2, x_forwarded_for="192.0.2.2") == [status] * 2
        # the client wrote the first ones, the proxy the last: a second proxy is passed over
        assert wrong(tried, 1, x_forwarded_for="192.0.2.99, 192.0.2.1") == [429]
        assert wrong(tried, 1, x_forwarded_for="192.0.2.1, 10.0.0.7") == [429]
        assert wrong(tried, 1, x_forwarded_for="192.0.2.1, 192.0.2.3") == [status]
        assert wrong(tried, 1, x_forwarded_for="nonsense") == [status]


def test_an_ipv6_network_is_one_client() -> None:
    settings = Settings(base="/p", tokens=(Token(SECRET),), trusted_proxies=("127.0.0.1",))
    tried = client(settings)
    for number in range(MOST_AT_ONCE):
        assert wrong(tried, 1, x_forwarded_for=f"2001:db8::{number:x}") == [401]
    assert wrong(tried, 1, x_forwarded_for="2001:db8::ffff") == [429]
    assert wrong(tried, 1, x_forwarded_for="2001:db8:0:1::1") == [401]


@pytest.mark.parametrize(
    ("addresses", "other"),
    [
        (["203.0.113.9:{}", "203.0.113.9", "::ffff:203.0.113.9"], "203.0.113.8:1"),
        (["[2001:db8::1]:{}", "[2001:db8::2]", "2001:db8::3"], "[2001:db8:0:1::1]:1"),
    ],
)
def test_another_port_is_no_other_client(addresses: list[str], other: str) -> None:
    proxies = ("127.0.0.1", "10.0.0.7")
    settings = Settings(base="/p", tokens=(Token(SECRET),), trusted_proxies=proxies)
    tried = client(settings)
    for number in range(MOST_AT_ONCE):
        address = addresses[number % len(addresses)].format(50_000 + number)
        assert wrong(tried, 1, x_forwarded_for=address) == [401]
    for address in addresses:
        assert wrong(tried, 1, x_forwarded_for=address.format(1)) == [429]
        assert wrong(tried, 1, x_forwarded_for=f"{address.format(1)}, 10.0.0.7:99") == [429]
    assert wrong(tried, 1, x_forwarded_for=other) == [401]


@pytest.mark.parametrize(
    "text", ["short", "viewer=short", "operator=", "", "line\nbreaks\nand more", "15-characters--"]
)
def test_a_token_that_is_easily_guessed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="16 visible characters"):
        Token.parse(text)


def test_a_secret_may_hold_an_equals_sign() -> None:
    assert Token.parse("a=b=c=d=e=f=g=h=i") == Token("a=b=c=d=e=f=g=h=i", Role.operator)
    assert Token.parse("viewer=a=b=c=d=e=f=g=h=i") == Token("a=b=c=d=e=f=g=h=i", Role.viewer)
