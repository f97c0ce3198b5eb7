"""The wire format of protocol buffers, as far as a reader of one known message needs it.

Format: https://protobuf.dev/programming-guides/encoding. Nothing is recursive: a message inside is
given as its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_MAX_FIELD = (1 << 29) - 1


class Damaged(ValueError):
    """The bytes are no message from `offset` on."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"damaged at byte {offset:,}")
        self.at = offset


def fields(data: bytes) -> Iterator[tuple[int, int | bytes, int]]:
    """(number of the field, its value, where it begins) in order; raises Damaged.

    Integers are unsigned, as they lie there.
    """
    offset = 0
    while offset < len(data):
        begin = offset
        key, offset = _varint(data, offset, begin)
        number, wire = key >> 3, key & 7
        if not 0 < number <= _MAX_FIELD:
            raise Damaged(begin)
        value: int | bytes
        if wire == VARINT:
            value, offset = _varint(data, offset, begin)
        elif wire == BYTES:
            size, offset = _varint(data, offset, begin)
            value, offset = data[offset : offset + size], offset + size
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            value, offset = int.from_bytes(data[offset : offset + size], "little"), offset + size
        else:
            raise Damaged(begin)
        if offset > len(data):
            raise Damaged(begin)
        yield number, value, begin


def _varint(data: bytes, offset: int, begin: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[offset : offset + _LONGEST_VARINT]:
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), offset
        shift += 7
    raise Damaged(begin)
