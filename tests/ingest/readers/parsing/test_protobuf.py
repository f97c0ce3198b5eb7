"""The wire format of protocol buffers: every kind of field, and damage with its offset."""

from __future__ import annotations

import pytest

from ingest.readers.parsing.protobuf import Damaged, fields


def test_every_kind_of_field() -> None:
    data = b"\x08\x96\x01" + b"\x12\x02hi" + b"\x1d\x01\0\0\0" + b"\x21\x02" + b"\0" * 7
    assert list(fields(data)) == [(1, 150, 0), (2, b"hi", 3), (3, 1, 7), (4, 2, 12)]


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (b"\x08\x01\x12\x09hi", 2),  # shorter than its length field
        (b"\x0b", 0),  # groups are of old
        (b"\x00", 0),  # no field has number 0
        (b"\x08" + b"\xff" * 11, 0),  # a number without end
    ],
)
def test_damage_has_its_offset(data: bytes, at: int) -> None:
    with pytest.raises(Damaged) as raised:
        list(fields(data))
    assert raised.value.at == at
