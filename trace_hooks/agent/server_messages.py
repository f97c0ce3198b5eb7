"""Messages of a server, checked: it may be hostile or broken."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from websockets.exceptions import InvalidStatus

from trace_hooks.protocol.token_bucket import Rate

MESSAGES_PER_S, BYTES_PER_S = 500.0, float(1 << 20)
"""Most that a rank reads from a server: reading holds the interpreter lock, which training
needs."""
_BURST = 4
_MOST = 1e15


class Malformed(Exception):
    """The server sent something invalid; the text says what."""


class Inbox:
    """Messages of one connection, limited in number and bytes. For one thread."""

    def __init__(self) -> None:
        self._messages = Rate(MESSAGES_PER_S, _BURST * MESSAGES_PER_S)
        self._bytes = Rate(BYTES_PER_S, _BURST * BYTES_PER_S)

    def read(self, message: str | bytes) -> dict[str, Any]:
        """The object that a message holds; raises Malformed."""
        if not (self._messages.take() and self._bytes.take(len(message))):
            raise Malformed("it sends more than a rank reads")
        try:
            value = json.loads(message)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Malformed("it sent a message that is not a JSON object")
        return value


@dataclass(frozen=True)
class Limits:
    """How much a server accepts."""

    messages_per_s: float
    bytes_per_s: float
    message_bytes: int


def limits_of(welcome: dict[str, Any]) -> Limits:
    """Limits in a server's welcome; raises Malformed."""
    return Limits(
        _amount(welcome, "messages_per_s"),
        _amount(welcome, "bytes_per_s"),
        int(_amount(welcome, "message_bytes")),
    )


def _amount(welcome: dict[str, Any], name: str) -> float:
    value = welcome.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
        raise Malformed(f"its welcome has no {name} that is a number above 0")
    return float(value)


def refusal(error: InvalidStatus) -> str:
    """Why a server refused the connection, in its own words."""
    body = (error.response.body or b"").decode(errors="replace").strip()
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        body = str(json.loads(body)["error"])
    return body or f"it answered with status {error.response.status_code}"
