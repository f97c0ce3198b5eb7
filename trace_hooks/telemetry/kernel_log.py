"""New lines of the kernel's log, where /dev/kmsg may be read: Xid errors, kills, link changes.

Lines that mean something become rows of `log_lines`, as those of a rank's log do. Source: Linux'
ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_hooks.log_text.line_rows import LineRows
from trace_hooks.recording.clock import now
from trace_hooks.telemetry.names import HOST
from trace_hooks.telemetry.reading import Reading, Source

_MOST_AT_ONCE = 1_000
_RECORD_BYTES = 8192


class KernelLog(Source):
    """Lines that the kernel writes from now on. `read` raises OSError where it may not be read."""

    name = "kernel_log"
    every_s = 2.0

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._rows = LineRows("kernel", "kmsg", keeps_all=False)
        self._num_lines = 0

    def read(self) -> Iterator[Reading]:
        """How many lines there were; the rows wait for `take`."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        for _ in range(_MOST_AT_ONCE):
            try:
                record = os.read(self._descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # lines were overwritten before they were read
                continue
            if not record:
                break
            self._num_lines += 1
            self._rows.add(text_of(record) + "\n", now())
        yield Reading(HOST, "kernel_log_lines_total", self._num_lines)

    def take(self) -> list[dict[str, Any]]:
        """Rows of log_lines since the last call, on the host's monotonic clock."""
        return self._rows.take(now())


def text_of(record: bytes) -> str:
    """Text of a record `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT`, without its dictionary of keys."""
    return record.partition(b";")[2].decode("utf-8", "replace").split("\n", 1)[0]
