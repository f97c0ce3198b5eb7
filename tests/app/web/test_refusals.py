"""Refusals before a route: JSON over HTTP; a WebSocket that cannot carry a response is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from app.web.refusals import refuse, sentence


def sent(scope: dict[str, Any]) -> list[Message]:
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    asyncio.run(refuse(sentence(403, "No."), scope, receive, send))
    return messages


@pytest.mark.parametrize(
    "scope",
    [{"type": "http"}, {"type": "websocket", "extensions": {"websocket.http.response": {}}}],
)
def test_a_sentence_is_sent_wherever_a_response_is_possible(scope: dict[str, Any]) -> None:
    start, body = sent(scope)
    assert start["status"] == 403
    assert body["body"] == b'{"error":"No."}'


def test_any_other_socket_is_closed() -> None:
    assert sent({"type": "websocket"}) == [{"type": "websocket.close", "code": 1008}]
