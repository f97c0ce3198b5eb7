"""Lines that the job prints: what Python code writes to sys.stdout and sys.stderr.

Sees: print, logging to these streams, warnings, tracebacks. Where torchrun gives the rank log files
of its own (--redirects, --tee), nothing is wrapped: the watchdog reads those, which hold what C++
code writes as well. Misses otherwise: lines of C++ code (NCCL, c10d), and streams that the job
replaces before the hooks start. Without `allow_content` only lines that are errors, or known to
mean something, are kept.
Costs: one guarded call per write; lines are looked at on the drain thread.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trace_hooks.job.process_info import host_name
from trace_hooks.log_text.line_rows import LONGEST_TEXT, LineRows
from trace_hooks.recording.clock import now
from trace_hooks.recording.guard import guarded
from trace_hooks.sources.base import Source
from trace_hooks.sources.context import SourceContext

STREAMS = ("stdout", "stderr")
MOST_WAITING = 10_000
"""Writes between two looks; older ones are dropped."""


class PrintedLines(Source):
    """Rows of log_lines."""

    name = "logs"

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._waiting: dict[str, deque[tuple[int, str]]] = {}
        self._rows: dict[str, LineRows] = {}
        self._wrapped: dict[str, tuple[Any, Callable[..., Any]]] = {}

    def install(self) -> None:
        """Wrap the streams, or name the rank's own files to the watchdog."""
        for name in STREAMS:
            stream = getattr(sys, name)
            own = own_file(stream) if self.rank_state.ring is not None else None
            if own is not None:
                self.rank_state.log_files[name] = own
            elif stream is not None and hasattr(stream, "__dict__"):
                self._wrap(name, stream)

    def uninstall(self) -> None:
        """Give the streams their own `write` back; record what they have written."""
        for stream, wrapper in self._wrapped.values():
            if stream.__dict__.get("write") is wrapper:
                del stream.write
        self._record(is_over=True)
        self._wrapped.clear()

    def poll(self) -> None:
        """Make rows of what was written since."""
        self._record(is_over=False)

    def _wrap(self, name: str, stream: Any) -> None:
        waiting: deque[tuple[int, str]] = deque(maxlen=MOST_WAITING)
        original = stream.write

        def write(text: str) -> Any:
            result = original(text)
            _note(waiting, text)
            return result

        keeps_all = self.context.options.allow_content
        self._waiting[name], self._rows[name] = waiting, LineRows(name, name, keeps_all)
        self._wrapped[name] = stream, write
        stream.write = write

    def _record(self, is_over: bool) -> None:
        for name, waiting in self._waiting.items():
            rows = self._rows[name]
            while waiting:
                at_ns, text = waiting.popleft()
                rows.add(text, at_ns)
            for row in rows.take(now(), is_over):
                self.recorder.add_row("log_lines", host=host_name(), **row)


@guarded("logs.note")
def _note(waiting: deque[tuple[int, str]], text: str) -> None:
    waiting.append((now(), text[-LONGEST_TEXT:]))


def own_file(stream: Any) -> str | None:
    """The log file of this rank alone that a stream writes to; None where there is none.

    Only torchrun's files (.../attempt_0/LOCAL_RANK/stderr.log) are known to be of one rank.
    """
    try:
        descriptor = stream.fileno()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
    except (AttributeError, OSError, ValueError):  # not a file, or of another system
        return None
    is_own = path.parent.name == os.environ.get("LOCAL_RANK")
    is_torchruns = path.name in ("stdout.log", "stderr.log")
    return str(path) if is_own and is_torchruns and "attempt_" in path.parts[-3] else None
