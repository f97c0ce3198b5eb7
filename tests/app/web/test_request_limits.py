"""Addresses that are too long and requests with two lengths are refused before they are parsed."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse

from app.web.request_limits import LONGEST_QUERY, MOST_PARAMETERS, RequestLimits
from tests.app.server.asgi import Client

CLIENT = Client(RequestLimits(PlainTextResponse("through")))


@pytest.mark.parametrize(
    "query", ["", "a=" + "x" * (LONGEST_QUERY - 2), "&".join("a" * MOST_PARAMETERS)]
)
def test_ordinary_addresses_pass(query: str) -> None:
    assert CLIENT.get(f"/x?{query}").text == "through"


@pytest.mark.parametrize(
    "query", ["a=" + "x" * LONGEST_QUERY, "&".join("a" * (MOST_PARAMETERS + 1))]
)
def test_too_long_addresses_get_a_sentence(query: str) -> None:
    answer = CLIENT.get(f"/x?{query}")
    assert answer.status == 414
    assert "Request less at a time" in answer.json()["error"]


def test_two_lengths_close_the_connection() -> None:
    headers = {"content-length": "3", "transfer-encoding": "chunked"}
    answer = CLIENT.post("/x", b"abc", **headers)
    assert (answer.status, answer.headers["connection"]) == (400, "close")
