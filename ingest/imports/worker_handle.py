"""One process of ingest.imports.pool, seen from the one that gives it orders."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.errors import printable
from ingest.imports.worker import OUT_OF_MEMORY
from ingest.limits import limits, variable
from ingest.process_tuning import start

_START_S = 60.0
_MOST_SHOWN = 400


@dataclass
class Job:
    """One file on disk, or the last one: putting together what was found in all of them.

    `seconds` is how long it may take; the last one has the time of all files. An archive may have
    several readers, each of which takes members that are not taken yet.
    """

    number: int
    name: str
    num_bytes: int
    seconds: int
    order: dict[str, Any]
    read_bytes: int = 0
    is_archive: bool = False
    is_read: bool = False
    """whether a file that is no archive was read to its end"""
    num_lost: int = 0
    """readers that ended while they read it"""

    @property
    def rest_bytes(self) -> int:
        """What no reader has come to yet."""
        return self.num_bytes - self.read_bytes


class Process:
    """One process; `until_s` is when it is ended if it has not answered."""

    def __init__(self, command: Sequence[str], temporary: Path) -> None:
        self.job: Job | None = None
        self.source: tuple[int, str] | None = None
        """number and name of what it reads: the file, or a member of the archive"""
        self.had: set[int] = set()
        """numbers of the jobs it was given"""
        self.is_ready = False
        self.is_too_late = False
        self.until_s = time.monotonic() + _START_S
        self._text = b""  # of an answer that has not come whole
        self._started = start(command)
        self._process = self._started.process
        self._send({"temporary": str(temporary)})

    def fileno(self) -> int:
        """Where its answers come from."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def take(self, job: Job) -> None:
        """Begin with this."""
        self.job, self.source = job, None
        self.had.add(job.number)
        self.until_s = time.monotonic() + job.seconds
        self._send(job.order)

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it is gone: the end of its answers shows it
            self._process.stdin.write(json.dumps(order).encode() + b"\n")

    def answers(self) -> list[dict[str, Any]] | None:
        """What has come; None where it has ended."""
        piece = os.read(self.fileno(), 1 << 16)
        *lines, self._text = (self._text + piece).split(b"\n")
        return [json.loads(line) for line in lines] if piece else None

    def look_at_clock(self) -> None:
        """End it where its time is over."""
        if time.monotonic() > self.until_s and not self.is_too_late:
            self.is_too_late = True
            self._process.kill()

    def ending(self) -> str:
        """How it ended, when it has; waits for it."""
        status = self._process.wait()
        if self.is_too_late or status == -signal.SIGXCPU:
            allowed = self.job.seconds if self.job else 0
            return f"the reader was stopped after {allowed} s; raise {variable('max_file_seconds')}"
        if status == OUT_OF_MEMORY:
            bound = f"{limits().max_reader_mib:,} MiB of memory"
            return f"the reader needed more than {bound}; raise {variable('max_reader_mib')}"
        if status >= 0:
            return f"the reader ended with status {status}"
        name = signal.Signals(-status).name
        why = ", perhaps because the machine ran out of memory" if -status == signal.SIGKILL else ""
        return f"the reader ended with signal {-status} ({name}{why})"

    def last_words(self) -> str:
        """The last line it wrote to stderr."""
        self._started.errors.seek(0)
        lines = self._started.errors.read().decode("utf-8", "replace").split("\n")
        return next((printable(line)[:_MOST_SHOWN] for line in reversed(lines) if line), "it ended")

    def end(self) -> None:
        """End it at once, whatever it does."""
        self._started.end()
