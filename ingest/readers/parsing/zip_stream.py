"""Files of a zip archive that was cut off: its directory, at the end, is lost, so by their headers.

Format: APPNOTE.TXT of PKWARE, 4.3.7 (local file header) and 4.3.9 (data descriptor).
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ingest.streams import Allowance

_HEADER = struct.Struct("<4s5H3I2H")
FILE_HEADER = b"PK\x03\x04"
_BEHIND_A_FILE = (FILE_HEADER, b"PK\x01\x02")
_DESCRIPTOR_BYTES = (12, 16, 20, 24)
"""Sizes behind the content, with and without a signature, of 4 and of 8 bytes."""
_PIECE_BYTES = 1 << 14
_ENCRYPTED, _SIZES_BEHIND = 1, 8


@dataclass
class Headed:
    """One file by its own header; `read` raises EOFError where the archive ends in it."""

    name: str
    is_encrypted: bool
    method: int
    read: Callable[[int], bytes]


class _Content:
    """What lies behind a header, unpacked; `end` is where it was over, -1 before."""

    def __init__(
        self, stream: BinaryIO, begin: int, method: int, size: int | None, allowance: Allowance
    ) -> None:
        self.end = -1 if size is None else begin + size
        self._stream = stream
        self._allowance = allowance
        self._at = begin
        self._left = size
        self._inflater = zlib.decompressobj(-15) if method == zipfile.ZIP_DEFLATED else None
        self._waiting = b""

    def read(self, num_bytes: int) -> bytes:
        """The next bytes, b"" at the end; raises EOFError, ValueError and zlib.error."""
        piece = self._piece(num_bytes) if self._inflater is None else self._inflated(num_bytes)
        if not self._allowance.takes(len(piece)):
            raise ValueError(self._allowance.refusal())
        return piece

    def _inflated(self, num_bytes: int) -> bytes:
        assert self._inflater is not None
        while not self._inflater.eof:
            self._waiting = self._waiting or self._piece(_PIECE_BYTES)
            if not self._waiting:
                raise EOFError("it ends too early")
            piece = self._inflater.decompress(self._waiting, num_bytes)
            self._waiting = self._inflater.unconsumed_tail
            if self._inflater.eof:
                self.end = self._at - len(self._inflater.unused_data)
            if piece:
                return piece
        return b""

    def _piece(self, num_bytes: int) -> bytes:
        if self._left == 0:
            return b""
        if self._left is None and self._inflater is None:
            raise ValueError("its size stands behind it")
        self._stream.seek(self._at)
        piece = self._stream.read(min(num_bytes, self._left or num_bytes))
        if not piece:
            raise EOFError("the archive ends in it")
        self._at += len(piece)
        self._left = None if self._left is None else self._left - len(piece)
        return piece


def headed_files(stream: BinaryIO, allowance: Allowance) -> Iterator[Headed]:
    """Files in the order in which they lie there, up to the first that is not whole.

    Each is read to its end, by its consumer or here, before the next one is looked for. Raises
    what reading it raises.
    """
    offset = 0
    while (member := _headed(stream, offset, allowance)) is not None:
        headed, content, has_descriptor = member
        yield headed
        while content.end < 0 and headed.read(_PIECE_BYTES):
            pass  # its end is known by reading it
        if content.end < 0:
            return
        offset = _behind(stream, content.end) if has_descriptor else content.end


def _headed(
    stream: BinaryIO, offset: int, allowance: Allowance
) -> tuple[Headed, _Content, bool] | None:
    stream.seek(offset)
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(FILE_HEADER):
        return None
    _, _, flags, method, _, _, _, size, _, name_bytes, extra_bytes = _HEADER.unpack(header)
    name = stream.read(name_bytes).decode("utf-8", "replace")
    begin = offset + _HEADER.size + name_bytes + extra_bytes
    has_descriptor = bool(flags & _SIZES_BEHIND)
    is_known = not has_descriptor and size != 0xFFFFFFFF
    content = _Content(stream, begin, method, size if is_known else None, allowance)
    return Headed(name, bool(flags & _ENCRYPTED), method, content.read), content, has_descriptor


def _behind(stream: BinaryIO, end: int) -> int:
    """Where the next header is behind a content whose sizes stand behind it."""
    stream.seek(end)
    tail = stream.read(_DESCRIPTOR_BYTES[-1] + len(FILE_HEADER))
    fits = (size for size in _DESCRIPTOR_BYTES if tail[size : size + 4] in _BEHIND_A_FILE)
    return end + next(fits, 0)
