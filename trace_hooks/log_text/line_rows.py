"""Rows of `log_lines` from what a stream writes, piece by piece, at bounded cost and size.

A traceback, with those it was raised from, is one row; of a progress bar that rewrites its line
only the last state counts. Unless all text may be kept, a line is kept only where it is known to
mean something or is an error: what a job prints of its data stays out.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from trace_hooks.log_text.labels import label_of, may_have_label
from trace_hooks.log_text.secrets import KEY_ENDS, begins_key, is_of_key, masked, masked_start
from trace_hooks.log_text.templates import template_of

LONGEST_LINE, LONGEST_TEXT = 2048, 8192
MOST_AT_ONCE, PER_S = 1_000, 20.0
"""Rows of one stream: so many in a burst, and so many a second in the long run."""

MOST_USUAL = 1_000
"""Lines that differ in more than digits whose meaning is remembered."""

_DIGITS = str.maketrans("123456789", "000000000")
TRACEBACK = "Traceback (most recent call last):"
_BETWEEN = ("During handling of the above exception", "The above exception was the direct cause")
_ORIGINAL = "Original Traceback (most recent call last):"
"""Stands behind the exception of a loader's process as its rank raises it again."""
_OF_ACTOR = "ray::"
"""So begins the traceback of an actor of Ray within that of its caller."""
_PREFIX = re.compile(r"^(?:\[(?:rank|role|default)\d*:?\d*\]:? ?)+")
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b")
_GLOG = re.compile(r"(?:\[[a-z]+\d*\]:?\s?)?\[?([IWEF])\d{3,4} \d\d:\d\d:\d\d\.")
_GLOG_LEVELS = {"I": "info", "W": "warning", "E": "error", "F": "fatal"}
_LEVELS = {"WARN": "warning", "CRITICAL": "fatal"}
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class _Told(NamedTuple):
    """What a text tells. `is_usual`: it cannot have a known meaning, and holds no secret."""

    label: str
    level: str
    template: str
    is_usual: bool


def _told(text: str) -> _Told:
    told, is_usual = masked(text), not may_have_label(text)
    label = "" if is_usual else label_of(text)
    template = template_of(told)[:LONGEST_LINE]
    return _Told(label, level_of(text), template, is_usual and told == text)


class LineRows:
    """The rows of one stream of a rank. Not thread-safe."""

    def __init__(self, stream: str, file: str, keeps_all: bool) -> None:
        self._stream, self._file, self._keeps_all = stream, file, keeps_all
        self._rest = ""  # of a line that has not ended
        self._line = 0
        self._block: list[str] = []  # lines of a traceback
        self._block_began = (0, 0)  # its time and its first line
        self._in_key = False
        self._usual: dict[str, _Told] = {}
        self._rows: deque[dict[str, Any]] = deque()
        self._left_out = 0
        self._tokens, self._filled_ns = float(MOST_AT_ONCE), 0

    def add(self, text: str, ts_ns: int) -> None:
        """Take text that was written at a time (ns, of any clock)."""
        lines = (self._rest + text).split("\n")
        self._rest = lines.pop()[-LONGEST_TEXT:]
        for line in lines:
            self._line += 1
            self._add_line(masked_start(without_progress(line), LONGEST_LINE), ts_ns)

    def take(self, ts_ns: int, is_over: bool = False) -> list[dict[str, Any]]:
        """Rows made since the last call; `is_over`: also what has not ended."""
        if is_over:
            if self._rest:
                self.add("\n", ts_ns)
            self._end_block()
        elif ts_ns - self._block_began[0] > 2_000_000_000:
            self._end_block()
        rows = list(self._rows)
        self._rows.clear()
        return rows

    def _add_line(self, line: str, ts_ns: int) -> None:
        plain = _PREFIX.sub("", line)
        if self._in_key and is_of_key(plain):
            self._in_key = KEY_ENDS not in plain
            return
        self._in_key = begins_key(plain)
        if self._block and continues_traceback(self._block, plain):
            self._block.append(plain)
            return
        if self._block:
            self._end_block()
        if begins_traceback(plain):
            self._block, self._block_began = [plain], (ts_ns, self._line)
        elif plain.strip():
            self._add_row(line, ts_ns, self._line)

    def _end_block(self) -> None:
        if not self._block:
            return
        lines, (ts_ns, number) = self._block, self._block_began
        self._block = []
        self._add_row(shortened("\n".join(lines).rstrip()), ts_ns, number)

    def _add_row(self, text: str, ts_ns: int, number: int) -> None:
        told = self._told(text)
        if not (self._keeps_all or told.label or told.level in ("error", "fatal")):
            return
        if not self._may_add(ts_ns):
            self._left_out += 1
            return
        self._rows.append(
            {
                "ts_ns": ts_ns,
                "timed": "own",
                "stream": self._stream,
                "file": self._file,
                "line": number,
                "level": told.level,
                "label": told.label,
                "template": told.template,
                "text": text if told.is_usual else masked(text),
                "count": 1 + self._left_out,
            }
        )
        self._left_out = 0

    def _told(self, text: str) -> _Told:
        """What a text tells; of usual lines, those with other digits tell the same."""
        key = text.translate(_DIGITS)
        told = self._usual.get(key)
        if told is None:
            told = _told(text)
            if told.is_usual and len(self._usual) < MOST_USUAL:
                self._usual[key] = told
        return told

    def _may_add(self, ts_ns: int) -> bool:
        gained = (ts_ns - self._filled_ns) / 1e9 * PER_S if self._filled_ns else 0.0
        self._tokens = min(self._tokens + max(gained, 0.0), float(MOST_AT_ONCE))
        self._filled_ns = ts_ns
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def begins_traceback(line: str) -> bool:
    """Whether a traceback follows on a line: nothing else stands in it, or a logger's own words."""
    return line.startswith(TRACEBACK) or line.rstrip().endswith(TRACEBACK)


def continues_traceback(block: Sequence[str], line: str) -> bool:
    """Whether a line continues the traceback, or the chain of them, that `block` is so far."""
    if line.startswith(TRACEBACK):
        return any(before.startswith(_BETWEEN) for before in block[-3:])
    if line.startswith((" ", "\t", "^", *_BETWEEN, _ORIGINAL, _OF_ACTOR)) or not line.strip():
        return True
    last = next((before for before in reversed(block) if before.strip()), "")
    return last.startswith((" ", "\t", "^"))  # the exception itself


def shortened(text: str) -> str:
    """At most LONGEST_TEXT characters, both ends kept."""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2 - 10
    return f"{text[:half]}\n  ...\n{text[-half:]}"


def level_of(text: str) -> str:
    """debug, info, warning, error or fatal by the word that says so; '' where none does."""
    if text.startswith(TRACEBACK):
        return "error"
    head = text[:200]
    if (glog := _GLOG.match(head)) is not None:
        return _GLOG_LEVELS[glog[1]]
    found = _LEVEL.search(head)
    return _LEVELS.get(found[1], found[1].lower()) if found else ""


def without_progress(line: str) -> str:
    """The last state of a line that was rewritten, without colours."""
    if "\r" not in line and "\x1b" not in line:
        return line if line.strip() else ""
    states = [state for state in line.rstrip("\r").split("\r") if state.strip()]
    return _ESCAPES.sub("", states[-1] if states else "")
