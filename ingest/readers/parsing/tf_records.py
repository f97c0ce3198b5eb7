"""Records of a TFRecord file: length, its CRC, bytes, their CRC; nothing is held but one record.

Format: https://www.tensorflow.org/tutorials/load_data/tfrecord
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ingest.readers.parsing.crc32c import masked_crc32c
from ingest.streams import Read

_HEAD = struct.Struct("<QI")
_TAIL_BYTES = 4
_PIECE_BYTES = 1 << 20


class TfRecords:
    """Iterate to get the records of at most `longest` bytes; afterwards the counts are filled."""

    def __init__(self, read: Read, longest: int) -> None:
        self.num_longer = 0
        self.num_bad = 0
        self.problems: list[str] = []
        self._read, self._longest = read, longest
        self._rest = b""
        self._offset = 0

    def __iter__(self) -> Iterator[bytes]:
        while head := self._take(_HEAD.size):
            if len(head) < _HEAD.size:
                self._cut()
                return
            length, crc = _HEAD.unpack(head)
            if masked_crc32c(head[:8]) != crc:
                where = self._offset - _HEAD.size
                self.problems.append(
                    f"damaged at byte {where:,} (the CRC of a record's length is wrong); nothing "
                    "after it was read"
                )
                return
            if length > self._longest:
                if not self._skip(length + _TAIL_BYTES):
                    self._cut()
                    return
                self.num_longer += 1
                continue
            record, tail = self._take(length), self._take(_TAIL_BYTES)
            if len(record) < length or len(tail) < _TAIL_BYTES:
                self._cut()
                return
            if masked_crc32c(record) == int.from_bytes(tail, "little"):
                yield record
            else:
                self.num_bad += 1
        if self.num_bad:
            self.problems.append(f"{self.num_bad:,} records with a wrong CRC were left out")

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size and (piece := self._read(_PIECE_BYTES)):
            self._rest += piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        self._offset += len(taken)
        return taken

    def _skip(self, size: int) -> bool:
        """Pass over so many bytes without keeping them; False where there are fewer."""
        while size:
            taken = self._take(min(size, _PIECE_BYTES))
            if not taken:
                return False
            size -= len(taken)
        return True

    def _cut(self) -> None:
        self.problems.append(f"cut off at byte {self._offset:,}, within a record")
        if self.num_bad:
            self.problems.append(f"{self.num_bad:,} records with a wrong CRC were left out")


def begins_with_record(head: bytes) -> bool:
    """Whether the length of a first record and its CRC fit."""
    return len(head) > _HEAD.size and masked_crc32c(head[:8]) == _HEAD.unpack(head[:12])[1]
