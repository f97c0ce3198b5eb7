"""New lines of the kernel's log, where /dev/kmsg may be read: Xid errors, kills, link changes.

Lines that mean something become rows of `log_lines`, as those of a rank's log do, but for errors of
processes that are known to be another job's. Source: Linux' ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trace_hooks.log_text.line_rows import LineRows
from trace_hooks.log_text.xids import OF_ONE_PROCESS
from trace_hooks.recording.clock import now
from trace_hooks.telemetry.names import HOST
from trace_hooks.telemetry.reading import Reading, Source

_MOST_AT_ONCE = 1_000
_RECORD_BYTES = 8192
_XID = re.compile(r"\bXid \([^)]{1,60}\): (\d{1,3}), pid=(\d{1,9})\b")


class KernelLog(Source):
    """Lines that the kernel writes from now on. `read` raises OSError where it may not be read."""

    name = "kernel_log"
    every_s = 2.0

    def __init__(
        self,
        path: Path = Path("/dev/kmsg"),
        is_strangers: Callable[[int], bool] = lambda pid: False,
    ) -> None:
        self._path, self._is_strangers = path, is_strangers
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
            text = text_of(record)
            if not self._is_of_another_job(text):
                self._rows.add(text + "\n", now())
        yield Reading(HOST, "kernel_log_lines_total", self._num_lines)

    def _is_of_another_job(self, text: str) -> bool:
        """An error of the program of a process that is not this job's."""
        found = _XID.search(text)
        if found is None or int(found[1]) not in OF_ONE_PROCESS:
            return False
        return self._is_strangers(int(found[2]))

    def take(self) -> list[dict[str, Any]]:
        """Rows of log_lines since the last call, on the host's monotonic clock."""
        return self._rows.take(now())


def text_of(record: bytes) -> str:
    """Text of a record `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT`, without its dictionary of keys."""
    return record.partition(b";")[2].decode("utf-8", "replace").split("\n", 1)[0]
