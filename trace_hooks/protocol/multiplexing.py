"""The messages of all ranks of a host on one WebSocket: each names the channel that it belongs to.

A host's relay (trace_hooks/watchdog/relay.py) opens a channel for each of its ranks. What passes
through a channel is what would pass through a WebSocket of the rank. A message on the shared socket
is binary: the channel's number (uint32, little-endian), the kind (uint8) and the content. A number
is used once. Server and relay agree on this format by the subprotocol. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

SUBPROTOCOL = "rankscope.ranks-of-a-host.1"
MOST_CHANNELS = 256
"""Open at once on one socket."""
_HEAD, _CODE = struct.Struct("<IB"), struct.Struct("<H")
HEAD_BYTES = _HEAD.size
_LOST, _RESTARTING = 1006, 1012
_LONGEST_REASON = 123


class Kind(IntEnum):
    """What a message on a shared socket is."""

    OPEN = 0  # the rank has connected
    TEXT = 1
    BINARY = 2
    CLOSE = 3  # the sender closes the channel: a WebSocket's close code (uint16) and the reason


@dataclass(frozen=True)
class Packet:
    """One message on a shared socket."""

    channel: int
    kind: Kind
    content: bytes = b""

    @staticmethod
    def of(channel: int, message: str | bytes) -> Packet:
        """A message as a rank or the server sends it."""
        if isinstance(message, str):
            return Packet(channel, Kind.TEXT, message.encode())
        return Packet(channel, Kind.BINARY, message)

    @staticmethod
    def closing(channel: int, code: int | None, reason: str = "") -> Packet:
        """The end of a channel; `code` None: the connection broke."""
        return Packet(channel, Kind.CLOSE, _CODE.pack(code or _LOST) + reason.encode())

    @property
    def message(self) -> str | bytes:
        """The message that `of` was given; what is not UTF-8 in a text is replaced."""
        return self.content.decode(errors="replace") if self.kind is Kind.TEXT else self.content

    @property
    def code_and_reason(self) -> tuple[int, str]:
        """Close code and reason of a CLOSE, as far as a WebSocket has room for it."""
        reason = self.content[_CODE.size :][:_LONGEST_REASON]
        return _CODE.unpack_from(self.content)[0], reason.decode(errors="ignore")

    def encode(self) -> bytes:
        """The message's bytes."""
        return _HEAD.pack(self.channel, self.kind) + self.content


def decode(encoded: str | bytes) -> Packet:
    """The packet of what `encode` made; raises ValueError, one sentence, for anything else."""
    if isinstance(encoded, str) or len(encoded) < HEAD_BYTES:
        raise ValueError("a message of a host names no channel")
    channel, number = _HEAD.unpack_from(encoded)
    try:
        kind = Kind(number)
    except ValueError:
        raise ValueError(f"a message of a host is of the unknown kind {number}") from None
    if kind is Kind.CLOSE and len(encoded) < HEAD_BYTES + _CODE.size:
        raise ValueError("a host closes a channel without a code")
    return Packet(channel, kind, encoded[HEAD_BYTES:])


def sendable(code: int | None) -> int:
    """The code with which a rank's socket is closed where the shared one was closed with `code`.

    Codes such as that of a broken connection may not be sent.
    """
    return code if code is not None and (code == 1000 or 3000 <= code < 5000) else _RESTARTING
