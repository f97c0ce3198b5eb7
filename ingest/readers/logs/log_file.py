"""One log file, read line by line: which lines are kept, and what each of them means.

Most lines of a log differ in digits only. What a line means is looked up by its text without
digits, so that it is worked out once for all of them; and of such lines only the first and the last
are kept. Of lines with a known meaning, and of errors, many more are kept (limits in
ingest.readers.logs.kinds).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ingest.readers.logs.blocks import Block, Blocks
from ingest.readers.logs.heads import (
    Head,
    head_of,
    host_in,
    hosts_before_lines,
    is_labelled,
    record_line,
)
from ingest.readers.logs.kinds import Kind, Kinds, forms_of
from ingest.readers.logs.named_ranks import first_ranks_of_hosts, rank_in_communicator
from trace_hooks.log_text.labels import label_of
from trace_hooks.log_text.line_rows import LONGEST_TEXT, TRACEBACK, level_of, without_progress

_LONGEST_RAW = 2 * LONGEST_TEXT
_GLUED = re.compile(
    rb"(?:it/s|s/it|examples/s)(?:, [^\]\r\n]{0,400})?\](?=\[rank\d|\[20\d\d-|\[?[EWF]\d{3,4} |\[E "
    rb"|Traceback \(|slurmstepd|srun:|(?:ERROR|WARNING|CRITICAL)[: ]|terminate called)"
)
"""The end of a progress bar that another line follows without a new one."""


class Kept(NamedTuple):
    """A line, or several that belong together. `timed`: the newest line before with a time, for
    LogFile.time_text; `kind`: None of a block.
    """

    number: int
    head: Head
    text: str
    label: str
    level: str
    timed: str | bytes
    kind: Kind | None


class LogFile:
    """The lines of one file. `first_lines`: of its beginning; `is_records`: they are JSON."""

    def __init__(self, first_lines: Sequence[str], is_records: bool) -> None:
        self._labelled = is_labelled(first_lines)
        self._hosts = hosts_before_lines(first_lines)
        self._is_records = is_records
        self._kinds = Kinds()
        self._blocks = Blocks()
        self._ready: list[Kept] = []
        self._timed: str | bytes = ""  # decoded when it is needed
        self._number = 0
        self.num_kept = 0
        self.ranks: Counter[int] = Counter()
        """lines that name them in their prefix"""
        self.first_ranks: Counter[int] = Counter()
        """global rank of local rank 0, by lines that name both"""
        self.hosts: Counter[str] = Counter()
        self.communicators: Counter[tuple[int, int]] = Counter()
        """(rank, size), as NCCL says"""
        self.first_ranks_of_hosts: dict[str, int] = {}
        """global rank of local rank 0, as torchrun says of hosts on which ranks failed"""

    @property
    def left_out(self) -> int:
        """Lines that were not kept, known at the end."""
        return self._kinds.left_out

    def add(self, text: bytes) -> list[Kept]:
        """Take the next lines, whole ones; returns what is sure to be kept by now."""
        lines = text.split(b"\n")
        if self._is_records:
            lines = [record_line(line).encode("utf-8", "replace") for line in lines]
            forms = list(map(forms_of, lines))
        else:
            forms = forms_of(text).split(b"\n")
        by_form, kind_of = self._kinds.by_form, self._kinds.kind_of
        open_blocks, number = self._blocks.open, self._number
        for raw, form in zip(lines, forms, strict=True):
            number += 1
            kind = by_form.get(form) or kind_of(form)
            if kind is None or not kind.is_fixed or open_blocks:
                self._number = number
                self._add(raw, form, kind)
            elif kind.count < kind.num_first:
                self._number = number
                self._add_known(raw, kind)
            else:
                kind.count += 1
                kind.last.append((number, raw, self._timed))
                if kind.has_time:
                    self._timed = raw
        self._number = number
        return self._take_ready()

    def finish(self) -> list[Kept]:
        """The rest, in order of their numbers: what had not ended, and the last of every kind."""
        for block in self._blocks.end_all():
            self._keep_block(block)
        for kind in self._kinds.all():
            for number, raw, timed in kind.last:
                head = self._head(raw)
                label, level = self._meaning(kind, head.text)
                self._keep(number, head, label, level, timed, kind)
        self._ready.sort(key=lambda kept: kept.number)
        return self._take_ready()

    def _take_ready(self) -> list[Kept]:
        ready, self._ready = self._ready, []
        return ready

    def _add(self, raw: bytes, form: bytes, kind: Kind | None) -> None:
        if (b"it" in raw or b"/s" in raw) and (bar := _GLUED.search(raw)) is not None:
            for part in (raw[: bar.end()], raw[bar.end() :]):
                part_form = forms_of(part)
                self._add(part, part_form, self._kinds.kind_of(part_form))
            return
        head = self._head(raw)
        if self._blocks.open:
            ended, is_taken = self._blocks.take(head)
            for block in ended:
                self._keep_block(block)
            if is_taken:
                return
        if not head.text.strip():
            return
        if self._blocks.begin(head, self._number, self._timed):
            return
        if kind is None:
            kind = self._kinds.add(form, head.text, bool(head.time))
        label, level = self._meaning(kind, head.text)
        kind.count += 1
        kind.note(label, level)
        if kind.count <= kind.num_first:
            self._keep(self._number, head, label, level, self._timed, kind)
        else:
            kind.last.append((self._number, raw, self._timed))
        if kind.has_time or head.time:
            self._timed = head.time or head.text

    def _add_known(self, raw: bytes, kind: Kind) -> None:
        kind.count += 1
        head = self._head(raw)
        self._keep(self._number, head, kind.label, kind.level, self._timed, kind)
        if kind.has_time:
            self._timed = raw

    def _meaning(self, kind: Kind, text: str) -> tuple[str, str]:
        """Label and level: of lines whose digits may matter, by the line itself."""
        return (kind.label, kind.level) if kind.is_fixed else (label_of(text), level_of(text))

    def _head(self, raw: bytes) -> Head:
        return head_of(without_progress(_text(raw)), self._labelled, self._hosts)

    def time_text(self, timed: str | bytes) -> str:
        """Text that begins with the time of a line that is noted as `timed`."""
        if isinstance(timed, str):
            return timed
        head = self._head(timed)
        return head.time or head.text

    def _keep(
        self, number: int, head: Head, label: str, level: str, timed: str | bytes, kind: Kind
    ) -> None:
        self._note(head)
        self._ready.append(Kept(number, head, head.shown, label, level, timed, kind))

    def _keep_block(self, block: Block) -> None:
        self._note(block.head)
        text = block.text
        self.first_ranks_of_hosts.update(first_ranks_of_hosts(text))
        label = label_of(text)
        level = level_of(text) or ("error" if label else "")
        if text.startswith(TRACEBACK):
            level = "error"
        self._ready.append(Kept(block.number, block.head, text, label, level, block.timed, None))

    def _note(self, head: Head) -> None:
        """What a line says of the file's ranks and hosts."""
        self.num_kept += 1
        if head.rank is not None:
            self.ranks[head.rank] += 1
            if head.local_rank is not None:
                self.first_ranks[head.rank - head.local_rank] += 1
        if host := head.host or host_in(head.text):
            self.hosts[host] += 1
        if (communicator := rank_in_communicator(head.text)) is not None:
            self.communicators[communicator] += 1


def _text(raw: bytes) -> str:
    """Decoded, of a very long line both ends."""
    if len(raw) > _LONGEST_RAW:
        raw = raw[:LONGEST_TEXT] + raw[-LONGEST_TEXT:]
    return raw.decode("utf-8", "replace")
