"""Byte streams that are read forward and in pieces: counted, looked ahead, inflated within limits.

A damaged or endless gzip ends early and reports where; nothing here raises.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from isal import isal_zlib

from ingest.limits import MIB, limits, variable

PIECE_BYTES = 1 << 14
"""Compressed bytes inflated at once: what is lost around damage."""
MAX_INFLATED_BYTES = 4 << 20
GZIP = b"\x1f\x8b"

Read = Callable[[int], bytes]


@dataclass
class Damage:
    """What is wrong with the bytes of one file; empty when nothing is."""

    text: str = ""


class Allowance:
    """What one file on disk may unfold to, all archives and layers inside it together."""

    def __init__(self, disk_bytes: int) -> None:
        bounds = limits()
        free, most = bounds.inflated_free_mib * MIB, bounds.max_inflated_mib * MIB
        self.most_bytes = min(free + bounds.max_inflation * disk_bytes, most)
        self.unfolded_bytes = 0

    def takes(self, num_bytes: int) -> bool:
        """Whether this many more bytes are allowed."""
        self.unfolded_bytes += num_bytes
        return self.unfolded_bytes <= self.most_bytes

    def refusal(self) -> str:
        """Why the rest is not read."""
        return (
            f"unfolds to more than {self.most_bytes >> 20:,} MiB, as no trace of its size does; "
            f"the rest was not read ({variable('max_inflation')}, {variable('max_inflated_mib')})"
        )


def counted(stream: BinaryIO, on_bytes: Callable[[int], None], damage: Damage) -> Read:
    """Reads a file on disk; `on_bytes` gets how much."""

    def read(num_bytes: int) -> bytes:
        try:
            piece = stream.read(num_bytes)
        except OSError as error:
            damage.text = f"could not be read on: {error.strerror}"
            return b""
        on_bytes(len(piece))
        return piece

    return read


class Ahead:
    """A stream whose beginning can be looked at before it is read."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._held = b""

    def look(self, num_bytes: int) -> bytes:
        """The first bytes, without taking them."""
        pieces = [self._held]
        missing = num_bytes - len(self._held)
        while missing > 0:
            piece = self._read(missing)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        self._held = b"".join(pieces)
        return self._held[:num_bytes]

    def read(self, num_bytes: int) -> bytes:
        """The next bytes, at most `num_bytes`."""
        if self._held:
            piece, self._held = self._held[:num_bytes], self._held[num_bytes:]
            return piece
        return self._read(num_bytes)


def inflated(read: Read, damage: Damage, allowance: Allowance) -> Read:
    """Reads gzip of any number of members; a damaged one ends early and is noted in `damage`."""
    inflater = isal_zlib.decompressobj(wbits=31)
    waiting = b""  # compressed bytes not yet taken
    done_bytes = 0
    ended = False

    def next_piece(num_bytes: int) -> bytes:
        nonlocal inflater, waiting, done_bytes, ended
        limit = min(num_bytes, MAX_INFLATED_BYTES)  # a gzip bomb must not unfold at once
        while not ended:
            if not waiting:
                waiting = read(PIECE_BYTES)
            if inflater.eof:
                if len(waiting) == 1:  # the next member may begin with the last byte of a piece
                    waiting += read(PIECE_BYTES)
                if not waiting.startswith(GZIP):  # the end, or padding behind it
                    ended = True
                    if waiting.strip(b"\0"):
                        damage.text = "bytes that follow its gzip are no gzip, left out"
                    break
                inflater = isal_zlib.decompressobj(wbits=31)
            at_end = not waiting
            try:
                piece = inflater.decompress(waiting, limit)
            except isal_zlib.error as error:  # type: ignore[misc]
                ended = True
                damage.text = f"its gzip is damaged after {done_bytes:,} bytes of content: {error}"
                break
            waiting = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            done_bytes += len(piece)
            if not allowance.takes(len(piece)):
                ended = True
                damage.text = allowance.refusal()
                break
            if piece:
                return piece
            if at_end and not inflater.eof:
                ended = True
                damage.text = f"its gzip is cut off after {done_bytes:,} bytes of content"
        return b""

    return next_piece


def as_utf_8(read: Read, encoding: str) -> Read:
    """Reads text of another encoding as UTF-8; what is no text of it becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    waiting, ended = b"", False

    def next_piece(num_bytes: int) -> bytes:
        nonlocal waiting, ended
        while not waiting and not ended:
            piece = read(num_bytes)
            ended = not piece
            waiting = decoder.decode(piece, ended).encode("utf-8", "replace")
        piece, waiting = waiting[:num_bytes], waiting[num_bytes:]
        return piece

    return next_piece


def natural_key(text: str) -> list[tuple[int, int, str]]:
    """Sorts rank2 before rank10."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(p), "") if p.isdecimal() and len(p) < 19 else (1, 0, p) for p in parts]
