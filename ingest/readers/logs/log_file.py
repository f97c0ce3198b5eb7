"""One log file, read line by line: which lines are kept, and what each of them says.

Most lines of a log differ in digits only. What a line means is looked up by its text without
digits, so that it is worked out once for all of them; and of such usual lines only the first and
the last are kept (FIRST, LAST). Nothing is left out that has a known meaning or is an error.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ingest.readers.logs.heads import Head, head_of, host_in, is_labelled, journal_line
from ingest.readers.logs.timestamps import has_time
from trace_hooks.log_text.labels import label_of, may_have_label
from trace_hooks.log_text.line_rows import (
    LONGEST_LINE,
    LONGEST_TEXT,
    TRACEBACK,
    continues_traceback,
    level_of,
    shortened,
    without_progress,
)

FIRST, LAST = 250, 250
"""Usual lines that are equal but for digits: so many are kept from the beginning and the end."""
MOST_KINDS = 20_000
"""Lines that differ in more than digits and whose meaning is remembered."""
MOST_TOLD = 200_000
"""Lines with a meaning that are kept of one file."""
_LONGEST_BLOCK = 400

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_VARIES = re.compile(rb"\b[0a-f]{8,}\b|0{2,}")
"""Numbers of any length, and hexadecimal ones, in a line whose digits are all 0."""
MOST_FORMS = 100_000
"""Lengths of numbers that kinds of lines have had."""
_BOX = re.compile(r"^={10,}$")


class Kept(NamedTuple):
    """A line, or several that belong together. `timed`: the newest line before with a time."""

    number: int
    head: Head
    text: str
    label: str
    level: str
    timed: str


@dataclass
class _Kind:
    """Lines that are equal but for digits."""

    label: str
    level: str
    is_usual: bool
    has_time: bool
    count: int = 0
    last: deque[tuple[int, bytes, str | bytes]] = field(default_factory=lambda: deque(maxlen=LAST))


class LogFile:
    """The lines of one file. `labelled`: with srun's labels; `is_journal`: JSON lines."""

    def __init__(self, first_lines: list[str], is_journal: bool) -> None:
        self._labelled = is_labelled(first_lines)
        self._is_journal = is_journal
        self._kinds: dict[bytes, _Kind] = {}
        self._forms: dict[bytes, _Kind] = {}
        self._other = _Kind("", "", True, False)
        self._blocks: dict[int | None, list[str]] = {}
        self._begun: dict[int | None, tuple[int, Head, str]] = {}
        self._kept: list[Kept] = []
        self._timed: str | bytes = ""  # decoded when it is needed
        self._number = 0
        self.ranks: Counter[int] = Counter()
        self.hosts: Counter[str] = Counter()
        self.left_out = 0
        self._told = 0

    def add(self, lines: list[bytes]) -> None:
        """Take the next lines, without their ends."""
        forms, translate = self._forms, bytes.translate
        for raw in lines:
            self._number += 1
            if self._blocks or self._is_journal:
                self._add(raw, None)
                continue
            form = translate(raw, _DIGITS)
            kind = forms.get(form) or self._known(form)
            if kind is None or not kind.is_usual:
                self._add(raw, kind)
            elif kind.count < FIRST:
                self._keep_usual(kind, raw)
            else:
                kind.count += 1
                kind.last.append((self._number, raw, self._timed))
                if kind.has_time:
                    self._timed = raw

    def finish(self) -> Iterator[Kept]:
        """All lines that are kept, in their order."""
        for rank in list(self._blocks):
            self._end_block(rank)
        for kind in (*self._kinds.values(), self._other):
            beyond = kind.count - FIRST - len(kind.last)
            self.left_out += max(beyond, 0)
            for number, raw, timed in kind.last:
                self._keep(number, self._head(raw), kind, _decoded(timed))
        return iter(sorted(self._kept, key=lambda kept: kept.number))

    def _known(self, form: bytes) -> _Kind | None:
        """The kind of a line with numbers of other lengths, remembered for this form as well."""
        kind = self._kinds.get(_VARIES.sub(b"0", form))
        if kind is not None and len(self._forms) < MOST_FORMS:
            self._forms[form] = kind
        return kind

    def _add(self, raw: bytes, kind: _Kind | None) -> None:
        line = (
            journal_line(raw) if self._is_journal else raw[:LONGEST_TEXT].decode("utf-8", "replace")
        )
        line = without_progress(line)
        head = head_of(line, self._labelled)
        if self._in_block(head):
            return
        text = head.text
        if not text.strip():
            return
        if kind is None or self._is_journal:
            kind = self._kind_of(raw, text, head)
        if text.startswith(TRACEBACK) or _BOX.match(text):
            self._blocks[head.rank] = [text]
            self._begun[head.rank] = (self._number, head, _decoded(self._timed))
            return
        kind.count += 1
        if kind.is_usual and kind.count > FIRST:
            kind.last.append((self._number, raw, _decoded(self._timed)))
        else:
            self._keep(self._number, head, kind, _decoded(self._timed))
        if kind.has_time or head.time:
            self._timed = head.time or text

    def _keep_usual(self, kind: _Kind, raw: bytes) -> None:
        kind.count += 1
        self._keep(self._number, self._head(raw), kind, _decoded(self._timed))
        if kind.has_time:
            self._timed = raw

    def _head(self, raw: bytes) -> Head:
        line = raw[:LONGEST_TEXT].decode("utf-8", "replace")
        return head_of(without_progress(line), self._labelled)

    def _keep(self, number: int, head: Head, kind: _Kind, timed: str) -> None:
        if head.rank is not None:
            self.ranks[head.rank] += 1
        if host := host_in(head.text):
            self.hosts[host] += 1
        if not kind.is_usual:
            self._told += 1
            if self._told > MOST_TOLD:
                self.left_out += 1
                return
        text = head.text[:LONGEST_LINE]
        self._kept.append(Kept(number, head, text, kind.label, kind.level, timed))

    def _kind_of(self, raw: bytes, text: str, head: Head) -> _Kind:
        """What a line means; unusual words beyond MOST_KINDS share one kind where it has none."""
        is_usual = not may_have_label(text)
        level = level_of(text)
        if is_usual and level not in ("error", "fatal"):
            if len(self._kinds) >= MOST_KINDS:
                return self._other
        else:
            is_usual = False
        kind = _Kind(
            "" if is_usual else label_of(text), level, is_usual, has_time(text) or bool(head.time)
        )
        if len(self._kinds) < MOST_KINDS:
            self._kinds[_VARIES.sub(b"0", raw.translate(_DIGITS))] = kind
        return kind

    def _in_block(self, head: Head) -> bool:
        """Whether a line belongs to a block of its rank that is open, which it then joins."""
        block = self._blocks.get(head.rank)
        if block is None:
            return False
        if _BOX.match(block[0]):
            block.append(head.text)
            if _BOX.match(head.text) or len(block) > _LONGEST_BLOCK:
                self._end_block(head.rank)
            return True
        if len(block) <= _LONGEST_BLOCK and continues_traceback(block, head.text):
            block.append(head.text)
            return True
        self._end_block(head.rank)
        return False

    def _end_block(self, rank: int | None) -> None:
        lines, (number, head, timed) = self._blocks.pop(rank), self._begun.pop(rank)
        text = shortened("\n".join(lines).rstrip())
        label = label_of(text)
        level = "error" if text.startswith(TRACEBACK) or label else ""
        kind = _Kind(label, level, is_usual=False, has_time=False)
        self._keep(number, head._replace(text=text), kind, timed)
        self._kept[-1] = self._kept[-1]._replace(text=text)


def _decoded(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
