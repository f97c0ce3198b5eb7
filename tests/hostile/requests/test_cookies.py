"""Cookies that strangers send, or that servers on other ports of the same host have set."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import Settings, Token
from tests.app.server.served import Served, served
from tests.runs_builder import two_rank_run

SECRET = "correct-horse-battery"
MOST_S = 1.0
"""A parser that unquotes took 5 s for these 60 kB, during which nobody else was answered."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runs: Path = tmp_path_factory.mktemp("runs")
    two_rank_run(runs / "job")
    with served(runs, Settings(port=0, tokens=(Token(SECRET),))) as running:
        yield running


@pytest.fixture(scope="module")
def own(server: Served) -> str:
    """The cookie of a session."""
    connection = http.client.HTTPConnection(server.address)
    connection.request("GET", f"/?token={SECRET}")
    given = connection.getresponse().getheader("Set-Cookie") or ""
    connection.close()
    return given.partition(";")[0]


@pytest.mark.parametrize(
    "sent",
    [
        'prefs={"a":1}; OWN',
        "a=b c; OWN",
        "flag; OWN",
        "NAME=evil; OWN",
        "OWN; NAME=evil",
        'a="; OWN',
        "; ".join(f"a{n}=1" for n in range(2_000)) + "; OWN",
    ],
    ids=["JSON", "blank", "no value", "ours before", "ours after", "open quote", "many"],
)
def test_cookies_of_other_servers_keep_out_nobody_who_has_a_session(
    server: Served, own: str, sent: str
) -> None:
    name = own.partition("=")[0]
    cookie = sent.replace("OWN", own).replace("NAME", name)
    assert server.ask("/api/runs", Cookie=cookie)[0] == 200
    assert server.ask("/api/runs", Cookie=cookie.replace(own, f"{name}=x"))[0] == 401


@pytest.mark.parametrize(
    "sent", ['a="' + '\\"' * 30_000 + '"', 'a="' + "\\" * 60_000, ";" * 60_000, "NAME=;" * 3_000]
)
def test_no_cookie_of_a_stranger_takes_long_to_read(server: Served, own: str, sent: str) -> None:
    cookie = sent.replace("NAME", own.partition("=")[0])
    began_s = time.process_time()
    assert server.ask("/api/runs", Cookie=cookie)[0] == 401
    assert time.process_time() - began_s < MOST_S
