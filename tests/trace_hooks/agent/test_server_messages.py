"""Messages of a server are checked before a rank acts on them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from trace_hooks.agent.server_messages import (
    MESSAGES_PER_S,
    Inbox,
    Limits,
    Malformed,
    limits_of,
    refusal,
)

WELCOME = {"messages_per_s": 50, "bytes_per_s": 1e6, "message_bytes": 4096}


def test_an_object_is_read() -> None:
    assert Inbox().read('{"type": "welcome"}') == {"type": "welcome"}


@pytest.mark.parametrize("message", ["", "[]", "5", "{", b"\xff", "[" * 100_000])
def test_anything_else_is_malformed(message: str | bytes) -> None:
    with pytest.raises(Malformed, match="not a JSON object"):
        Inbox().read(message)


def test_a_flood_is_malformed() -> None:
    inbox = Inbox()
    with pytest.raises(Malformed, match="more than a rank reads"):
        list(map(inbox.read, ["{}"] * 10 * int(MESSAGES_PER_S)))


def test_the_limits_of_a_welcome() -> None:
    assert limits_of(WELCOME) == Limits(50.0, 1e6, 4096)


@pytest.mark.parametrize("value", [None, 0, -1, True, "5", 1e300, float("nan")])
def test_a_limit_that_is_not_a_number_above_0_is_malformed(value: Any) -> None:
    with pytest.raises(Malformed, match="no bytes_per_s that is a number above 0"):
        limits_of({**WELCOME, "bytes_per_s": value})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (json.dumps({"error": "the token is wrong"}).encode(), "the token is wrong"),
        (b"<html>", "<html>"),
        (b"", "it answered with status 401"),
    ],
)
def test_a_refusal_is_in_the_servers_words(body: bytes, text: str) -> None:
    assert refusal(InvalidStatus(Response(401, "", Headers(), body))) == text
