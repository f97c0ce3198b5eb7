"""Kept lines as rows of log_lines, written a batch at a time.

Whose a line is may be known only when all files have been read: until then its rank is OF_FILE, or
that of a local rank (LOCAL - number), and its host is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ingest.limits import limits
from ingest.readers.logs.heads import Head, host_in
from ingest.readers.logs.log_file import Kept, LogFile
from ingest.readers.logs.places import Place
from ingest.readers.logs.timestamps import UNKNOWN_NS, Clock
from ingest.readers.tables.rows import rows
from ingest.readers.tables.staged_rows import StagedRows
from trace_hooks.log_text.line_rows import LONGEST_LINE, shortened
from trace_hooks.log_text.secrets import masked
from trace_hooks.log_text.templates import template_of
from trace_hooks.schema import UNKNOWN

OF_FILE = -2
"""Rank of a row until it is known whose log the file is."""
LOCAL = -10
"""Rank of a row of local rank 0 until the ranks of its host are known; of local rank 1: -11."""
_ROWS_AT_ONCE = 20_000


class LineTable:
    """Rows of one file. `name`, `place`: what the file's name says."""

    def __init__(
        self, file: LogFile, name: str, place: Place, clock: Clock, staged: StagedRows
    ) -> None:
        self._file, self._name, self._place = file, name, place
        self._clock, self._staged = clock, staged
        self._rows: list[dict[str, Any]] = []
        self._timed: tuple[str | bytes, int] = ("", UNKNOWN_NS)
        self.newest_ns = UNKNOWN_NS
        """of the times that its lines name"""

    def add(self, lines: Iterable[Kept]) -> None:
        """Lines, those that are equal next to each other."""
        for kept in lines:
            row = self._row(kept)
            if self._rows and _is_again(self._rows[-1], row):
                self._rows[-1]["count"] += 1
                continue
            if len(self._rows) >= _ROWS_AT_ONCE:
                self.write()
            self._rows.append(row)

    def write(self) -> None:
        """Write what was not written yet."""
        if self._rows:
            columns = {name: [row[name] for row in self._rows] for name in self._rows[0]}
            self._staged.add_rows("log_lines", 0, rows("log_lines", len(self._rows), columns))
            self._rows = []

    def _row(self, kept: Kept) -> dict[str, Any]:
        head = kept.head
        timed, ts_ns = "own", self._clock.time_ns(head.time or kept.text)
        self.newest_ns = max(self.newest_ns, ts_ns)
        if ts_ns == UNKNOWN_NS:
            ts_ns = self._time_before(kept.timed)
            timed = "none" if ts_ns == UNKNOWN_NS else "file"
        text, template = _text_and_template(kept)
        return {
            "rank": rank_of(head, self._place),
            "ts_ns": ts_ns,
            "timed": timed,
            "host": head.host or host_in(text),
            "stream": head.stream or self._place.stream,
            "file": self._name,
            "line": kept.number,
            "level": kept.level,
            "label": kept.label,
            "template": template,
            "text": text,
            "count": 1,
        }

    def _time_before(self, timed: str | bytes) -> int:
        """Time of the newest line before that has one, which many lines share."""
        if timed != self._timed[0]:
            self._timed = timed, self._clock.time_ns(self._file.time_text(timed))
        return self._timed[1]


def _text_and_template(kept: Kept) -> tuple[str, str]:
    """Without secrets, and not too long; lines of a plain kind share their template."""
    kind = kept.kind
    if kind is not None and kind.is_plain:
        text = kept.text[:LONGEST_LINE]
        kind.template = kind.template or template_of(text)
        return text, kind.template
    text = masked(kept.text)
    text = shortened(text) if kind is None and "\n" in text else text[:LONGEST_LINE]
    return text, template_of(text)


def _is_again(before: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a row repeats the one before, as the next state of a progress bar does."""
    return all(before[name] == row[name] for name in ("text", "rank", "label", "host", "stream"))


def rank_of(head: Head, place: Place) -> int:
    """Rank of a line, OF_FILE or below where it is not known yet; -1 of a host or its job."""
    if head.rank is not None:
        return head.rank if head.rank < limits().max_ranks else UNKNOWN
    if head.local_rank is not None:
        return LOCAL - head.local_rank
    return UNKNOWN if place.is_host_log or head.stream in ("kernel", "scheduler") else OF_FILE


def error_table(name: str, text: str, level: str, label: str, at_s: int | None) -> pa.Table:
    """The exception of an error file, as if it stood in the log."""
    text = shortened(masked(text))
    row = {
        "rank": OF_FILE,
        "ts_ns": UNKNOWN_NS if at_s is None else at_s * 10**9,
        "timed": "none" if at_s is None else "own",
        "stream": "stderr",
        "file": name,
        "line": 1,
        "level": level,
        "label": label,
        "template": template_of(text),
        "text": text,
        "count": 1,
    }
    return rows("log_lines", 1, {column: [value] for column, value in row.items()})
