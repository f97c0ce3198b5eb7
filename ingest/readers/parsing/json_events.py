"""The events of a Chrome trace in JSON, in batches, without ever holding the whole file.

The text between two events is the only point where a trace can be cut. The last `}, {` of a piece
is tried as such a point: a piece that ends inside a string, an object or a list does not decode, so
a piece that decodes was cut at the right point. Where it fails (the array's end, a nested list of
objects, a damaged event) the piece is walked token by token instead.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

PIECE_BYTES = 4 << 20
MAX_VALUE_BYTES = 64 << 20
"""One event or one header value larger than this is damage (or an attack), not a trace."""
MAX_KEPT_HEADER_BYTES = 8 << 20
EXAMPLES_SHOWN = 3

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN = re.compile(_STRING.pattern + rb'|[{}\[\]"]', re.DOTALL)
_BETWEEN_EVENTS = re.compile(rb"\}\s*,\s*(?=\{)")
_SCALAR = re.compile(rb"[^\s,\[\]{}\"]+(?=[\s,\]}])")
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_SEARCHED_BACK = 1 << 16
_QUOTE = ord('"')

Event = TypeVar("Event")


UNDECODABLE = (ValueError, RecursionError)
"""What decoders of JSON raise; the second where it is nested too deeply."""

decode_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode


class CutOff(Exception):
    """The text ended in the middle of something."""


class EventStream(Generic[Event]):
    """Iterate to get lists of events; afterwards `header`, `num_elements`, `problems` are filled.

    `read(n)` gives the next bytes, b"" at the end. `decode_many` decodes a JSON list of events and
    raises one of UNDECODABLE where any of it is not as expected; `decode_one` decodes one event,
    and raises that or gives None for one that cannot be used. `list_name` is the list's key where
    it is inside an object.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        decode_many: Callable[[bytes], list[Event]],
        decode_one: Callable[[bytes], Event | None],
        list_name: str = "traceEvents",
    ) -> None:
        self.header: dict[str, bytes] = {}
        """JSON text of every top-level value but the events"""
        self.num_elements = 0
        self.num_bad = 0
        self.is_cut = False
        """whether it ended before its end"""
        self.problems: list[str] = []
        self._read = read
        self._decode_many = decode_many
        self._decode_one = decode_one
        self._list_name = list_name
        self._text = b""
        self._at = 0
        self._offset = 0  # of _text[0] in the file
        self._bad_offsets: list[int] = []

    def __iter__(self) -> Iterator[list[Event]]:
        try:
            yield from self._top_level()
        except CutOff as cut:
            self.is_cut = True
            where = self._offset + len(self._text)
            self.problems.append(f"cut off at byte {where:,} of its JSON text, {cut}")
        if self.num_bad:
            offsets = ", ".join(f"{offset:,}" for offset in self._bad_offsets)
            more = ", ..." if self.num_bad > len(self._bad_offsets) else ""
            self.problems.append(
                f"{self.num_bad:,} damaged events left out (at byte {offsets}{more})"
            )

    def _top_level(self) -> Iterator[list[Event]]:
        first = self._peek("before anything was read")
        if first == b"\xef":  # UTF-8 byte order mark
            self._at += 3
            first = self._peek("before anything was read")
        self._at += 1
        if first == b"[":
            yield from self._events()
        elif first == b"{":
            yield from self._members()
        else:
            self.problems.append("does not begin like JSON")

    def _members(self) -> Iterator[list[Event]]:
        while True:
            next_byte = self._peek("after the events" if self.num_elements else "in its header")
            if next_byte == b"}":
                return
            if next_byte == b",":
                self._at += 1
                continue
            if next_byte != b'"':
                where = self._offset + self._at
                self.problems.append(f"damaged at byte {where:,}: a name in quotes should be there")
                return
            key = self._value().decode("utf-8", "replace").strip('"')
            if self._peek("in its header") == b":":
                self._at += 1
            if key == self._list_name and self._peek("in its header") == b"[":
                self._at += 1
                yield from self._events()
            else:
                value = self._value()
                if len(value) <= MAX_KEPT_HEADER_BYTES:
                    self.header[key] = value

    def _events(self) -> Iterator[list[Event]]:
        """Batches up to the end of the array, whose `[` has been passed."""
        while True:
            self._fill(PIECE_BYTES)
            batch = self._fast_piece()
            if batch is not None:
                yield batch
                continue
            batch, closed = self._walked_piece()
            if batch:
                yield batch
            if closed:
                return

    def _fast_piece(self) -> list[Event] | None:
        back = max(self._at, len(self._text) - _SEARCHED_BACK)
        boundaries = deque(_BETWEEN_EVENTS.finditer(self._text, back), maxlen=1)
        if not boundaries:
            return None
        last = boundaries[0]
        try:
            batch = self._decode_many(b"[" + self._text[self._at : last.start() + 1] + b"]")
        except UNDECODABLE:
            return None
        self.num_elements += len(batch)
        self._at = last.end()
        return batch

    def _walked_piece(self) -> tuple[list[Event], bool]:
        """Events of about a piece, found token by token, and whether the array ended."""
        spans: list[tuple[int, int]] = []
        self._compact()
        closed = False
        stop = PIECE_BYTES
        while self._at < stop and not closed:
            try:
                first = self._peek("inside its list of events", keep=bool(spans))
                if first == b"]":
                    self._at += 1
                    closed = True
                elif first == b",":
                    self._at += 1
                else:
                    end = self._value_end()
                    spans.append((self._at, end))
                    self._at = end
            except CutOff:
                if not spans:
                    raise
                break  # give what there is; the next call meets the end again
        return self._decoded(spans), closed

    def _decoded(self, spans: list[tuple[int, int]]) -> list[Event]:
        self.num_elements += len(spans)
        texts = [self._text[start:end] for start, end in spans]
        try:
            return self._decode_many(b"[" + b",".join(texts) + b"]")
        except UNDECODABLE:
            pass
        batch: list[Event] = []
        for (start, _), text in zip(spans, texts, strict=True):
            event = self._one(text)
            if event is not None:
                batch.append(event)
                continue
            self.num_bad += 1
            if len(self._bad_offsets) < EXAMPLES_SHOWN:
                self._bad_offsets.append(self._offset + start)
        return batch

    def _one(self, text: bytes) -> Event | None:
        try:
            return self._decode_one(text)
        except UNDECODABLE:
            return None

    def _peek(self, where: str, keep: bool = False) -> bytes:
        """Next byte that is no blank; raises CutOff at the end of the text.

        With `keep`, text before _at stays, so that positions found earlier stay right.
        """
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._text):
                return self._text[self._at : self._at + 1]
            if not keep:
                self._compact()
            elif len(self._text) > MAX_VALUE_BYTES:
                raise CutOff("because 64 MiB there are blank")
            if not self._more():
                raise CutOff(where)

    def _value(self) -> bytes:
        self._peek("in its header")
        end = self._value_end()
        value = self._text[self._at : end]
        self._at = end
        return value

    def _value_end(self) -> int:
        """Where the value that begins at _at ends; reads on as far as needed.

        Never drops text before _at, so that positions found earlier stay right.
        """
        while True:
            end = _end_of_value(self._text, self._at)
            if end is not None:
                return end
            if len(self._text) - self._at > MAX_VALUE_BYTES:
                raise CutOff("because one value there is larger than 64 MiB")
            if not self._more():
                raise CutOff("inside a value")

    def _fill(self, num_bytes: int) -> None:
        self._compact()
        self._take(num_bytes - len(self._text))

    def _compact(self) -> None:
        self._text = self._text[self._at :]
        self._offset += self._at
        self._at = 0

    def _more(self) -> bool:
        # as much again as there is: a long value is scanned a few times, not once a piece
        return self._take(max(PIECE_BYTES - len(self._text), len(self._text), 1))

    def _take(self, num_bytes: int) -> bool:
        pieces = [self._text]
        while num_bytes > 0 and (piece := self._read(num_bytes)):
            pieces.append(piece)
            num_bytes -= len(piece)
        self._text = b"".join(pieces)
        return len(pieces) > 1


def _end_of_value(text: bytes, start: int) -> int | None:
    """End of the JSON value at `start`; None where the text ends before it does."""
    first = text[start : start + 1]
    if first == b'"':
        string = _STRING.match(text, start)
        return string.end() if string else None
    if first not in (b"{", b"["):
        scalar = _SCALAR.match(text, start)
        if scalar:
            return scalar.end()
        # a byte no value begins with: one byte of damage at a time
        return start + 1 if first and first in b":}]" else None
    depth = 0
    for token in _TOKEN.finditer(text, start):
        byte = text[token.start()]
        if byte == _QUOTE and token.end() - token.start() == 1:
            return None  # a string that is not closed yet
        if byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def tolerant_json(text: bytes) -> Any:
    """A value of JSON in which NaN, control characters, bad UTF-8 and surrogates may stand.

    Raises ValueError for anything else.
    """
    try:
        return msgspec.json.decode(text)
    except UNDECODABLE:
        pass
    try:
        return json.loads(text.decode("utf-8", "replace"), strict=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def tolerant_object(text: bytes) -> dict[str, Any] | None:
    """The object that is meant, NaN and the like in it let by; None where it is another value.

    Raises one of UNDECODABLE.
    """
    value = json.loads(text.decode("utf-8", "replace"), strict=False)
    return value if isinstance(value, dict) else None
