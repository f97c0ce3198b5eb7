"""Lines that belong together: tracebacks, torchrun's box on a failure, keys, lines in parts.

Several ranks may write into one file at the same time: each has its own open block, by what stands
in front of its lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ingest.readers.logs.heads import Head
from trace_hooks.log_text.line_rows import LONGEST_LINE, begins_traceback, continues_traceback
from trace_hooks.log_text.secrets import KEY_ENDS, MASK, begins_key, is_of_key

_MOST_LINES = 400
_MOST_LINES_BETWEEN = 2_000
"""Lines of others after which a block is over: its writer may have died in it."""
_BOX = re.compile(r"^={10,}$")

Writer = tuple[int | None, int | None, str, str, str]
"""Rank, local rank, host, stream and process as the lines of a block name them."""


@dataclass
class Block:
    """Lines of one writer. `number`: of the first; `timed`: the newest line before with a time."""

    number: int
    head: Head
    timed: str | bytes
    lines: list[str]
    num_lines: int = 1
    num_between: int = 0

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines).rstrip()

    def continues_with(self, head: Head) -> bool:
        """Whether a line of the same writer belongs to it."""
        if self.num_lines > _MOST_LINES:
            return False
        if self.head.is_part:
            return True
        if begins_key(self.lines[0]):
            return is_of_key(head.text)
        if _BOX.match(self.lines[0]):
            return len(self.lines) > 1 or "FAILED" in head.text
        return continues_traceback(self.lines, head.text)

    def add(self, head: Head) -> bool:
        """Take a line; returns whether it was the last one."""
        self.num_lines += 1
        if self.head.is_part:
            return not head.is_part
        if begins_key(self.lines[0]):
            if KEY_ENDS in head.text:
                self.lines.append(f"{MASK}\n{head.text}")
                return True
            return False
        self.lines.append(head.text[:LONGEST_LINE])
        return _BOX.match(self.lines[0]) is not None and _BOX.match(head.text) is not None


@dataclass
class Blocks:
    """The open blocks of one file."""

    open: dict[Writer, Block] = field(default_factory=dict)

    def begin(self, head: Head, number: int, timed: str | bytes) -> bool:
        """Open a block where a line begins one."""
        text = head.text
        begins = (
            head.is_part
            or begins_traceback(text)
            or begins_key(text)
            or _BOX.match(text) is not None
        )
        if begins:
            self.open[_writer(head)] = Block(number, head, timed, [text])
        return begins

    def take(self, head: Head) -> tuple[list[Block], bool]:
        """Blocks that are over, and whether the line joined the open one of its writer."""
        ended = self._overdue()
        writer = _writer(head)
        block = self.open.get(writer)
        if block is None:
            return ended, False
        if not block.continues_with(head):
            return [*ended, self.open.pop(writer)], False
        block.num_between = 0
        if block.add(head):
            ended.append(self.open.pop(writer))
        return ended, True

    def end_all(self) -> list[Block]:
        """What is still open."""
        blocks = list(self.open.values())
        self.open.clear()
        return blocks

    def _overdue(self) -> list[Block]:
        ended = []
        for writer, block in list(self.open.items()):
            block.num_between += 1
            if block.num_between > _MOST_LINES_BETWEEN:
                ended.append(self.open.pop(writer))
        return ended


def _writer(head: Head) -> Writer:
    return head.rank, head.local_rank, head.host, head.stream, head.process
