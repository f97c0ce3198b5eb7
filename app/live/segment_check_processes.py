"""Processes that check received segments (app.live.segment_check), each with its own limits.

A file that needs too much CPU time or memory, or crashes its process, is not a segment: its rank
gets a sentence, and the server continues. If the server's machine is too slow or its disk fails,
nothing is known about the file, and the rank sends it again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

from ingest.errors import UserError, printable
from trace_hooks.schema import SegmentName

MEMORY_BYTES = 768 << 20
LONGEST_S = 10.0
"""CPU time for one file."""
LONGEST_WAIT_S = 60.0
"""Time until its answer, as disk and CPU may be busy with other work."""
START_S = 60.0
"""Extra time for a process to load its libraries."""
AT_ONCE = min(2, os.cpu_count() or 1)
_TRIES = 2
"""A file is checked again if its process ended."""
_COMMAND = (sys.executable, "-P", "-m", "app.live.segment_check")
_ENVIRON = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
}
_ROOT = str(Path(__file__).resolve().parents[2])


class SegmentChecks:
    """Safe for many threads; a caller waits while all processes are busy.

    `memory_bytes`: memory for decoding one file.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._slots = threading.Semaphore(AT_ONCE)
        self._idle: list[_Process] = []
        self._memory_bytes = memory_bytes

    def problem_of(self, path: Path, name: SegmentName) -> str:
        """What is wrong with a file that should be this segment; '' if nothing.

        Raises UserError if no process can be started or none manages to read the file.
        """
        with self._slots:
            for _ in range(_TRIES):
                process = self._idle.pop() if self._idle else _Process(self._memory_bytes)
                try:
                    problem = process.problem_of(path, name)
                except _Ended:  # perhaps the system ended it when another process needed memory
                    continue
                except _OutOfTime:
                    return _about(name, f"takes more than {LONGEST_S:g} s to decode")
                except TimeoutError:
                    raise UserError(
                        f"the server could not check {name} within {LONGEST_WAIT_S:g} s; "
                        "the rank sends it again"
                    ) from None
                self._idle.append(process)
                return problem
            return _about(name, "ends the process that decodes it")


def _about(name: SegmentName, what: str) -> str:
    return f"{name}, sent by rank {name.rank}, {what}"


class _Ended(Exception):
    """The process has ended."""


class _OutOfTime(Exception):
    """The process has used up its CPU time."""


class _Process:
    def __init__(self, memory_bytes: int) -> None:
        paths = [_ROOT, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        try:
            self._process = subprocess.Popen(
                (*_COMMAND, str(memory_bytes)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, **_ENVIRON, "PYTHONPATH": os.pathsep.join(paths)},
            )
        except OSError as error:
            raise UserError(
                f"cannot start a process that checks the ranks' files ({error.strerror})"
            ) from error
        self._end = weakref.finalize(self, _end, self._process)
        self._more_s = START_S  # to start

    def problem_of(self, path: Path, name: SegmentName) -> str:
        """What the process reports about a file. Raises _Ended, _OutOfTime or TimeoutError, and
        then the process has ended; raises UserError if the file cannot be read from the disk.
        """
        until_s = time.monotonic() + LONGEST_WAIT_S + self._more_s
        self._more_s = 0.0
        assert self._process.stdin is not None
        order = {"path": str(path.absolute()), "name": str(name), "seconds": LONGEST_S}
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            line = self._line(until_s)
        except BrokenPipeError:
            line = b""
        if line.endswith(b"\n"):
            answer = json.loads(line)
            if "failed" in answer:
                raise UserError(f"{name} cannot be read back on the server ({answer['failed']})")
            return printable(str(answer["problem"]))
        self._end()
        if self._process.returncode == -signal.SIGPROF:
            raise _OutOfTime
        raise TimeoutError if time.monotonic() >= until_s else _Ended

    def _line(self, until_s: float) -> bytes:
        """A line, or part of one if the process has ended or its time is over."""
        assert self._process.stdout is not None
        poll, line = select.poll(), b""
        poll.register(self._process.stdout, select.POLLIN)
        while not line.endswith(b"\n"):
            if not poll.poll(1000 * max(0.0, until_s - time.monotonic())):
                break
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            line += piece
        return line


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
