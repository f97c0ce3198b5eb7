"""Files of one JSON object a line: bad lines are skipped, counted, and reported by number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.limits import MIB, limits, variable
from ingest.streams import Read

_PIECE_BYTES = 1 << 20
_EXAMPLES_SHOWN = 3
_LINES_LOOKED_AT = 20

Line = dict[str, Any]


class JsonLines:
    """Iterate to get objects; afterwards `num_lines` and `problems` are filled."""

    def __init__(self, read: Read) -> None:
        self.num_lines = 0
        self.problems: list[str] = []
        self._read = read
        self._bad: list[int] = []
        self._num_bad = 0

    def __iter__(self) -> Iterator[Line]:
        for text in self._texts():
            self.num_lines += 1
            if not text.strip():
                continue
            value = decoded(text)
            if value is None:
                self.refuse()
            else:
                yield value
        if self._num_bad:
            more = ", ..." if self._num_bad > len(self._bad) else ""
            numbers = ", ".join(map(str, self._bad))
            self.problems.append(f"{self._num_bad:,} bad lines left out (line {numbers}{more})")

    def refuse(self) -> None:
        """Counts the line that was given last as a bad one."""
        self._num_bad += 1
        if len(self._bad) < _EXAMPLES_SHOWN:
            self._bad.append(self.num_lines)

    def _texts(self) -> Iterator[bytes]:
        most = limits().max_value_mib * MIB
        rest = b""
        while piece := self._read(_PIECE_BYTES):
            *lines, rest = (rest + piece).split(b"\n") if b"\n" in piece else [rest + piece]
            yield from lines
            if len(rest) > most:
                name = variable("max_value_mib")
                self.problems.append(
                    f"line {self.num_lines + 1:,} is longer than {name}={limits().max_value_mib}; "
                    "nothing after it was read; raise the limit to read the file"
                )
                return
        if rest:
            yield rest


def decoded(text: bytes) -> Line | None:
    """The object of one line; None for anything else."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        try:  # NaN, control characters, bad UTF-8
            value = json.loads(text.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def first_objects(head: bytes) -> list[Line]:
    """Objects among the first lines of a file, to recognise its format."""
    lines = head.split(b"\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]
    objects = (decoded(line) for line in lines if line.lstrip()[:1] == b"{")
    return [line for line in objects if line is not None]
