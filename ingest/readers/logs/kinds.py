"""Kinds of lines: those that are equal but for their numbers, and how many of each are kept."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ingest.readers.logs.timestamps import has_time
from trace_hooks.log_text.labels import label_of, may_have_label
from trace_hooks.log_text.line_rows import level_of
from trace_hooks.log_text.secrets import may_hold_secret

FIRST, LAST = 250, 250
"""Usual lines of a kind: this many are kept from the beginning and from the end."""
FEW = 10
"""The same for kinds beyond MANY_KINDS."""
MANY_KINDS = 500
SURE_AFTER = 2_000
"""This many lines of a kind meant the same, so that others will, too."""
FIRST_ERRORS = 5_000
"""Lines of a kind with a known meaning, and errors: kept from the beginning."""
MOST_KINDS = 20_000
"""Further lines share one kind, errors another."""
MOST_OTHER_ERRORS = 100_000

_MOST_KEY_BYTES = 16 << 20
_KEY_BEGINNING, _KEY_END = 1024, 256
"""Bytes of a line that are looked at to tell its kind."""
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_SHORTER_RUNS = (b"0" * 8, b"0" * 4, b"00", b"00")
"""Replaced by one 0 in this order, they leave none of the longer runs."""
_HEXADECIMAL = re.compile(rb"\b[0a-f]{8,}\b")
"""In a line with a 0 for each digit."""
_USUAL_LABELS = ("", "progress")


@dataclass(slots=True)
class Kind:
    """`is_fixed`: all its lines mean the same, whatever their digits; `varies`: they do not;
    `is_plain`: they are equal but for numbers in their whole length and hold no secret.
    """

    label: str
    level: str
    is_fixed: bool
    is_plain: bool
    has_time: bool
    num_first: int
    last: deque[tuple[int, bytes, str | bytes]]
    """of those beyond the first: number, line, and the newest line before it with a time"""
    count: int = 0
    varies: bool = False
    template: str = ""
    """of a plain one, once it is known"""

    def note(self, label: str, level: str) -> None:
        """Take what a line means, after which the kind may be fixed."""
        self.varies |= (label, level) != (self.label, self.level)
        self.is_fixed |= self.count == SURE_AFTER and not self.varies


def forms_of(text: bytes) -> bytes:
    """Lines with a 0 for each digit."""
    return text.translate(_DIGITS)


def _key(plain: bytes) -> bytes:
    """Equal for the lines of a kind: one 0 for each number, and not too long."""
    if len(plain) > _KEY_BEGINNING:
        plain = plain[:_KEY_BEGINNING] + plain[-_KEY_END:]
    for run in _SHORTER_RUNS:
        plain = plain.replace(run, b"0")
    return plain


def _shared_kind(is_fixed: bool, num_first: int) -> Kind:
    return Kind("", "", is_fixed, False, False, num_first, deque(maxlen=LAST))


@dataclass
class Kinds:
    """All kinds of one file."""

    _kinds: dict[bytes, Kind] = field(default_factory=dict)
    by_form: dict[bytes, Kind] = field(default_factory=dict)
    """by the form of a line, which is cheaper to make than the key of a kind; not of all lines"""
    _form_bytes: int = 0
    _key_bytes: int = 0
    _other: Kind = field(default_factory=lambda: _shared_kind(True, FEW))
    _other_errors: Kind = field(default_factory=lambda: _shared_kind(False, MOST_OTHER_ERRORS))

    def kind_of(self, form: bytes) -> Kind | None:
        """The kind of a line whose form is not in `by_form`; None where there is none like it."""
        plain = _HEXADECIMAL.sub(b"0", form)
        kind = self._kinds.get(_key(plain))
        if kind is not None and plain == form and self._form_bytes < _MOST_KEY_BYTES:
            self._form_bytes += len(form)
            self.by_form[form] = kind
        return kind

    def add(self, form: bytes, text: str, has_head_time: bool) -> Kind:
        """A kind for a line of a form of which there is none; `text`: without its prefixes."""
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
            len(form) <= _KEY_BEGINNING and not may_hold_secret(text),
            has_time(text) or has_head_time,
            num_first if is_usual else FIRST_ERRORS,
            deque(maxlen=num_last),
        )
        key = _key(_HEXADECIMAL.sub(b"0", form))
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
