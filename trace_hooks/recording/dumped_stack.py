"""The Python stack of another thread, as faulthandler dumps it.

faulthandler walks the stacks in C in one go, while it holds the global lock and without making
anything. Frame objects of another thread (sys._current_frames, f_back) are not safe instead: that
thread runs on between two steps of the walk, and with Python 3.11 the process crashed in one of
some ten starts of a job.
"""

from __future__ import annotations

import faulthandler
import os
import re
from typing import NamedTuple

MOST_BYTES = 1 << 20

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)")
_FRAME = re.compile(r'^  File "(.{1,1000})", line (\d{1,9}) in (.{1,300})$')


class Code(NamedTuple):
    """One frame of a stack."""

    file: str
    function: str
    line: int


class StackDump:
    """Dumps stacks to a file in memory, where the system has such files (Linux).

    The file is a new one each time: a job may close all descriptors, and open files of its own
    under their numbers.
    """

    def __init__(self) -> None:
        self._is_open = hasattr(os, "memfd_create")

    def stack_of(self, thread: int) -> list[Code]:
        """Frames of a thread, by its ident, from the innermost outwards; at most 100."""
        return stack_in(self.text(), thread)

    def text(self) -> str:
        """All threads, the newest first; '' without such a file."""
        if not self._is_open:
            return ""
        try:
            descriptor = os.memfd_create("trace_hooks stacks")
        except OSError:  # the job has none left
            return ""
        try:
            faulthandler.dump_traceback(descriptor, all_threads=True)
            return os.pread(descriptor, MOST_BYTES, 0).decode("utf-8", "replace")
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Dump no more, from any thread."""
        self._is_open = False


def stack_in(text: str, thread: int) -> list[Code]:
    """Frames of one thread in a dump of all; none where it is not in there."""
    codes: list[Code] = []
    is_wanted = False
    for line in text.splitlines():
        header = _THREAD.match(line)
        if header:
            is_wanted = int(header[1], 16) == thread
        elif is_wanted and (frame := _FRAME.match(line)):
            codes.append(Code(frame[1], frame[3], int(frame[2])))
    return codes
