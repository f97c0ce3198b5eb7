"""Processes that look at received segments (app.segment_check), each under limits of its own.

A file that takes too long, too much memory or ends its process is not a segment: whoever sent it
hears so, and the server goes on.
"""

from __future__ import annotations

import json
import os
import select
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
START_S = 60.0
"""What a process gets to load its libraries, on top of that."""
AT_ONCE = min(2, os.cpu_count() or 1)
_TRIES = 2
"""A file is tried again where its process ended."""
_COMMAND = (sys.executable, "-P", "-m", "app.segment_check")
_ENVIRON = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1",
}  # fmt: skip
_ROOT = str(Path(__file__).resolve().parents[1])


class SegmentChecks:
    """Safe from many threads; who finds all processes busy waits.

    `memory_bytes`: what decoding one file may take.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._places = threading.Semaphore(AT_ONCE)
        self._idle: list[_Process] = []
        self._memory_bytes = memory_bytes

    def problem_of(self, path: Path, name: SegmentName) -> str:
        """What is wrong with a file that shall be this segment; '' for nothing.

        Raises UserError where no process can be started.
        """
        with self._places:
            for _ in range(_TRIES):
                process = self._idle.pop() if self._idle else _Process(self._memory_bytes)
                try:
                    problem = process.problem_of(path, name)
                except _Ended:  # perhaps the system ended it, for want of memory elsewhere
                    continue
                except TimeoutError:
                    return _about(name, f"takes more than {LONGEST_S:.0f} s to decode")
                self._idle.append(process)
                return problem
            return _about(name, "ends the process that decodes it")


def _about(name: SegmentName, what: str) -> str:
    return f"{name}, sent by rank {name.rank}, {what}"


class _Ended(Exception):
    """The process has ended."""


class _Process:
    def __init__(self, memory_bytes: int) -> None:
        paths = [_ROOT, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        try:
            self._process = subprocess.Popen(
                (*_COMMAND, str(memory_bytes)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, bufsize=0, start_new_session=True,
                env={**os.environ, **_ENVIRON, "PYTHONPATH": os.pathsep.join(paths)},
            )  # fmt: skip
        except OSError as error:
            raise UserError(
                f"no process can be started that checks files of ranks ({error.strerror})"
            ) from error
        self._end = weakref.finalize(self, _end, self._process)
        self._more_s = START_S  # to start

    def problem_of(self, path: Path, name: SegmentName) -> str:
        """What it says of a file; raises _Ended, TimeoutError, and has ended then."""
        until_s = time.monotonic() + LONGEST_S + self._more_s
        self._more_s = 0.0
        assert self._process.stdin is not None
        order = json.dumps({"path": str(path.absolute()), "name": str(name)})
        try:
            self._process.stdin.write(order.encode() + b"\n")
            answer = self._answer(until_s)
        except BrokenPipeError:
            answer = b""
        if answer.endswith(b"\n"):
            return printable(str(json.loads(answer)["problem"]))
        self._end()
        raise TimeoutError if time.monotonic() >= until_s else _Ended

    def _answer(self, until_s: float) -> bytes:
        """A line, or less where the process has ended or its time is over."""
        assert self._process.stdout is not None
        poll, found = select.poll(), b""
        poll.register(self._process.stdout, select.POLLIN)
        while not found.endswith(b"\n"):
            if not poll.poll(1000 * max(0.0, until_s - time.monotonic())):
                break
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            if not piece:
                break
            found += piece
        return found


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
