"""Bodies are read completely before the app runs, within limits of size and time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.web import whole_bodies
from app.web.whole_bodies import WholeBodies


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(await Request(scope, receive).body())(scope, receive, send)


def answered(pieces: list[bytes], most_bytes: int = 100) -> tuple[int, bytes]:
    """Status and body; after the pieces the client sends nothing more."""
    messages: list[Any] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        message: Message = messages.pop(0)
        return message

    async def send(message: Message) -> None:
        sent.append(message)

    if pieces and pieces[-1] == b"":
        messages[-1]["more_body"] = False
    scope = {"type": "http", "method": "POST", "headers": []}
    asyncio.run(WholeBodies(echo, most_bytes)(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def test_the_app_gets_the_whole_body() -> None:
    assert answered([b"ab", b"cd", b""]) == (200, b"abcd")


def test_a_body_that_is_too_long_is_refused() -> None:
    status, body = answered([b"x" * 60, b"x" * 60])
    assert (status, b"longer than 100 bytes" in body) == (413, True)


def test_a_body_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_bodies, "LONGEST_S", 0.05)
    status, body = answered([b"ab"])
    assert (status, b"did not arrive" in body) == (408, True)


def test_all_bodies_of_one_token_share_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_bodies, "MOST_TOGETHER", 10)
    assert answered([b"x" * 11])[0] == 503
