"""Messages and frames between the server and the processes that run its SQL."""

from __future__ import annotations

import io
import os

import pytest

from ingest.free_sql import wire


def test_messages_and_frames_come_back() -> None:
    read_end, write_end = os.pipe()
    wire.write_message(write_end, {"sql": "SELECT 1"})
    wire.write_frame(write_end, wire.DATA, b"rows")
    wire.write_frame(write_end, wire.END)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        assert wire.read_message(file.read) == {"sql": "SELECT 1"}
        assert wire.read_frame(file.read) == (wire.DATA, b"rows")
        assert wire.read_frame(file.read) == (wire.END, b"")
        with pytest.raises(wire.Ended):
            wire.read_frame(file.read)


@pytest.mark.parametrize(
    "content", [b"\xff\xff\xff\xff", b"\x02\0\0\0[]", b"\x01\0\0\0x"], ids=["long", "list", "bad"]
)
def test_what_is_no_message_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # also what json raises
        wire.read_message(io.BytesIO(content).read)
