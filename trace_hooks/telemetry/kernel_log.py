"""New lines of the kernel's log, where /dev/kmsg may be read: Xid errors, kills, link changes.

Lines that mean something become rows of `log_lines`, as those of a rank's log do, but for what is
known to concern processes of other jobs: a program's error on a GPU, and the killer of processes
where memory is used up, which announces itself before it names its victim. Source: Linux'
ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_hooks.log_text.line_rows import LineRows
from trace_hooks.log_text.xids import OF_ONE_PROCESS
from trace_hooks.recording.clock import now
from trace_hooks.telemetry.job_processes import JobProcesses
from trace_hooks.telemetry.names import HOST
from trace_hooks.telemetry.reading import Reading, Source

_MOST_AT_ONCE = 1_000
_RECORD_BYTES = 8192
_XID = re.compile(r"\bXid \([^)]{1,60}\): (\d{1,3}), pid=(\d{1,9})\b")
_ANNOUNCED = "invoked oom-killer"
_NAMED = re.compile(r"\boom-kill:.{0,2000}\bpid=(\d{1,9})\b|\bKill(?:ed)? process (\d{1,9})\b")
_TOGETHER_NS = 10_000_000_000
"""Within this the killer names its victim."""


class KernelLog(Source):
    """Lines that the kernel writes from now on. `read` raises OSError where it may not be read."""

    name = "kernel_log"
    every_s = 2.0

    def __init__(
        self, path: Path = Path("/dev/kmsg"), processes: JobProcesses | None = None
    ) -> None:
        self._path, self._processes = path, processes
        self._announced: list[tuple[str, int]] = []  # lines whose victim is not named yet, and when
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
            self._take(text_of(record), now())
        while self._announced and now() - self._announced[0][1] > _TOGETHER_NS:
            self._add_announced()
        if self._processes is not None:
            self._processes.look()
        yield Reading(HOST, "kernel_log_lines_total", self._num_lines)

    def _take(self, text: str, at_ns: int) -> None:
        if self._processes is not None and _ANNOUNCED in text:
            self._announced.append((text, at_ns))
            return
        victim = _NAMED.search(text)
        xid = _XID.search(text)
        if victim is not None:
            pid = int(victim[1] or victim[2])
        elif xid is not None and int(xid[1]) in OF_ONE_PROCESS:
            pid = int(xid[2])
        else:
            self._rows.add(text + "\n", at_ns)
            return
        is_strangers = self._processes is not None and self._processes.is_strangers(pid)
        if victim is not None and is_strangers:
            self._announced.clear()
        elif victim is not None:
            self._add_announced()
        if not is_strangers:
            self._rows.add(text + "\n", at_ns)

    def _add_announced(self) -> None:
        for text, at_ns in self._announced:
            self._rows.add(text + "\n", at_ns)
        self._announced.clear()

    def take(self) -> list[dict[str, Any]]:
        """Rows of log_lines since the last call, on the host's monotonic clock."""
        return self._rows.take(now())


def text_of(record: bytes) -> str:
    """Text of a record `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT`, without its dictionary of keys."""
    return record.partition(b";")[2].decode("utf-8", "replace").split("\n", 1)[0]
