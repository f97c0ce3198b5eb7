"""Messages between the server and the two kinds of processes that run its SQL.

With the holder of a snapshot it exchanges JSON, a packet each (LONGEST_PACKET). The process of a
statement gets a message, a length and JSON, and answers with a row of frames: data is part of an
Arrow stream.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from typing import Any

LONGEST_PACKET = 1 << 16
DATA, ERROR, END = b"D", b"E", b"Z"
REUSABLE = b"+"
"""Content of an END after which the process takes another statement of the same session."""
_HEAD = struct.Struct("=cI")
_LENGTH = struct.Struct("=I")
_MOST = 64 << 20
"""Bytes of a frame or message: more is no answer of ours (portions.MOST_BYTES)."""

LAYERS = frozenset({"tree", "connection", "kernel"})


class Ended(Exception):
    """The other side has gone."""


def write_all(file: int, content: bytes | memoryview) -> None:
    """Write all of it; `os.write` is all that the filter of system calls leaves."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """`size` bytes; raises Ended."""
    content = bytearray()
    while len(content) < size:
        piece = read(size - len(content))
        if not piece:
            raise Ended
        content += piece
    return bytes(content)


def write_message(file: int, message: dict[str, Any]) -> None:
    """Send a message."""
    content = json.dumps(message).encode("utf-8", errors="surrogatepass")
    write_all(file, _LENGTH.pack(len(content)) + content)


def read_message(read: Callable[[int], bytes]) -> dict[str, Any]:
    """The next message; raises Ended, ValueError."""
    (size,) = _LENGTH.unpack(read_exactly(read, _LENGTH.size))
    if size > _MOST:
        raise ValueError(f"a message of {size} bytes")
    message = json.loads(read_exactly(read, size))
    if not isinstance(message, dict):
        raise ValueError("a message is a JSON object")
    return message


def write_frame(file: int, kind: bytes, content: bytes | memoryview = b"") -> None:
    """Send a frame."""
    write_all(file, _HEAD.pack(kind, len(content)))
    write_all(file, content)


def read_frame(read: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """Kind and content of the next frame; raises Ended, ValueError."""
    kind, size = _HEAD.unpack(read_exactly(read, _HEAD.size))
    if size > _MOST:
        raise ValueError(f"a frame of {size} bytes")
    return kind, read_exactly(read, size)
