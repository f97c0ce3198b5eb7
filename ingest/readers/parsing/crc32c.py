"""CRC-32C (Castagnoli), as TFRecord files have it: of a polynomial that zlib does not offer."""

from __future__ import annotations

from functools import cache

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


@cache
def _table() -> tuple[int, ...]:
    def entry(byte: int) -> int:
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        return byte

    return tuple(entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """Of all bytes."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """Rotated and shifted, as TFRecord stores it, so that a CRC of a CRC is no trivial number."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
