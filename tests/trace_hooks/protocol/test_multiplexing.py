"""Messages of several ranks on one WebSocket: what is sent is what arrives, and nothing else."""

from __future__ import annotations

import pytest

from trace_hooks.protocol.multiplexing import Kind, Packet, decode, sendable


@pytest.mark.parametrize("message", ["", "a text: é", b"", b"\0\xff" * 100])
def test_a_message_arrives_as_it_was_sent(message: str | bytes) -> None:
    packet = decode(Packet.of(7, message).encode())
    assert (packet.channel, packet.message) == (7, message)


def test_a_channel_is_closed_with_a_code_and_a_reason() -> None:
    packet = decode(Packet.closing(3, 4403, "not yours").encode())
    assert (packet.kind, packet.code_and_reason) == (Kind.CLOSE, (4403, "not yours"))
    assert Packet.closing(3, None).code_and_reason == (1006, "")


def test_a_reason_is_cut_to_what_a_websocket_has_room_for() -> None:
    _, reason = Packet.closing(3, 4400, "é" * 100).code_and_reason
    assert reason == "é" * 61


@pytest.mark.parametrize(
    ("encoded", "sentence"),
    [
        ("text", "names no channel"),
        (b"", "names no channel"),
        (b"\0\0\0\0", "names no channel"),
        (b"\0\0\0\0\x09", "unknown kind 9"),
        (b"\0\0\0\0\x03", "without a code"),
        (b"\0\0\0\0\x03\0", "without a code"),
    ],
)
def test_anything_else_is_refused(encoded: str | bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        decode(encoded)


def test_codes_that_may_not_be_sent_are_replaced() -> None:
    codes = (None, 1000, 1006, 1011, 4403)
    assert [sendable(code) for code in codes] == [1012, 1000, 1012, 1012, 4403]
