"""Kinds of lines: those that are equal but for their numbers, and how many of each are kept."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ingest.readers.logs.timestamps import has_time
from trace_hooks.log_text.labels import label_of, may_have_label
from trace_hooks.log_text.line_rows import level_of

FIRST, LAST = 250, 250
"""Usual lines of a kind: this many are kept from the beginning and from the end."""
FEW = 10
"""The same for kinds beyond MANY_KINDS."""
MANY_KINDS = 500
FIRST_ERRORS = 5_000
"""Lines of a kind with a known meaning, and errors: kept from the beginning."""
MOST_KINDS = 20_000
"""Further lines share one kind, errors another."""
MOST_OTHER_ERRORS = 100_000

_MOST_KEY_BYTES = 32 << 20
_KEY_BEGINNING, _KEY_END = 1024, 256
"""Bytes of a line that are looked at to tell its kind."""
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_VARIES = re.compile(rb"\b[0a-f]{8,}\b|0{2,}")
"""Numbers of any length, and hexadecimal ones, in a line whose digits are all 0."""
_USUAL_LABELS = ("", "progress")


@dataclass(slots=True)
class Kind:
    """`is_fixed`: all its lines mean the same, whatever their digits."""

    label: str
    level: str
    is_fixed: bool
    has_time: bool
    num_first: int
    last: deque[tuple[int, bytes, str | bytes]]
    """of those beyond the first: number, line, and the newest line before it with a time"""
    count: int = 0


def _form(raw: bytes) -> bytes:
    """A line with its digits as zeros."""
    if len(raw) > _KEY_BEGINNING:
        raw = raw[:_KEY_BEGINNING] + raw[-_KEY_END:]
    return raw.translate(_DIGITS)


def _shared_kind(is_fixed: bool, num_first: int) -> Kind:
    return Kind("", "", is_fixed, False, num_first, deque(maxlen=LAST))


@dataclass
class Kinds:
    """All kinds of one file."""

    _kinds: dict[bytes, Kind] = field(default_factory=dict)
    _forms: dict[bytes, Kind] = field(default_factory=dict)
    """by the line with digits as zeros, which is cheaper to make than the key of a kind"""
    _form_bytes: int = 0
    _key_bytes: int = 0
    _other: Kind = field(default_factory=lambda: _shared_kind(True, FEW))
    _other_errors: Kind = field(default_factory=lambda: _shared_kind(False, MOST_OTHER_ERRORS))

    def kind_of(self, raw: bytes) -> Kind | None:
        """The kind of a line; None where there is none like it yet."""
        form = _form(raw)
        return self._forms.get(form) or self._known(form)

    def _known(self, form: bytes) -> Kind | None:
        """The kind of a line with numbers of other lengths, remembered for this form as well."""
        kind = self._kinds.get(_VARIES.sub(b"0", form))
        if kind is not None and self._form_bytes < _MOST_KEY_BYTES:
            self._form_bytes += len(form)
            self._forms[form] = kind
        return kind

    def add(self, raw: bytes, text: str, has_head_time: bool) -> Kind:
        """A kind for a line of which there is none; `text`: without its prefixes."""
        is_fixed = not may_have_label(text)
        label, level = "" if is_fixed else label_of(text), level_of(text)
        is_usual = label in _USUAL_LABELS and level not in ("error", "fatal")
        is_full = len(self._kinds) >= MOST_KINDS or self._key_bytes > _MOST_KEY_BYTES
        if is_full:
            return self._other if is_usual and is_fixed else self._other_errors
        num_first, num_last = (FIRST, LAST) if len(self._kinds) < MANY_KINDS else (FEW, FEW)
        kind = Kind(
            label,
            level,
            is_fixed,
            has_time(text) or has_head_time,
            num_first if is_usual else FIRST_ERRORS,
            deque(maxlen=num_last),
        )
        key = _VARIES.sub(b"0", _form(raw))
        self._key_bytes += len(key)
        self._kinds[key] = kind
        return kind

    def all(self) -> Iterator[Kind]:
        """Every kind that has lines."""
        yield from self._kinds.values()
        yield from (self._other, self._other_errors)

    @property
    def left_out(self) -> int:
        """Lines that are neither among the first nor among the last of their kind."""
        return sum(max(kind.count - kind.num_first - len(kind.last), 0) for kind in self.all())
