"""The process under attack, seen from outside: queried, measured, and killed where it must be."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tests.hostile.free_sql.sql_target import Limits
from tests.hostile.sql.stage import Stage

GRACE_S = 4.0
"""On top of the target's own limit: the machine is busy, and a process takes time to end."""
_SAMPLE_S = 0.03
_START_S = 120.0
_ABORT_MESSAGE = re.compile(rb"^/arrow/cpp/src/arrow/\S+:\d+:  Check failed: .*\n", re.M)
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Reply:
    """How a statement ended, seen from outside: rows | refused | stopped | crashed | lost."""

    kind: str
    message: str = ""
    num_rows: int = 0
    leaks: tuple[str, ...] = ()
    has_values: bool = False
    digest: str = ""
    passed: str = ""
    """The limit that was passed, '' none."""


class Process:
    """A worker over one stage, started at the first query and again when it was lost."""

    def __init__(self, stage: Stage, layers: frozenset[str]) -> None:
        self.stage = stage
        self.layers = layers
        self.printed = stage.folder / "printed"
        self.limits = Limits(0, 0, 0)
        self._process: subprocess.Popen[bytes] | None = None
        self._baseline = 0

    def ask(self, text: str, wants_digest: bool = False) -> Reply:
        """Have the statement executed; the process is killed where limits do not hold."""
        process = self._process or self.start()
        try:
            self._socket.send((text, wants_digest))
            passed = self._watched(process)
            if passed:
                self.kill()
                return Reply("lost", passed=passed)
            kind, message, num_rows, leaks, has_values, digest = self._socket.recv()
        except (EOFError, OSError):
            status = process.wait()
            self.kill()
            return Reply("lost", passed=f"the queried process ended with status {status}")
        return Reply(kind, message, num_rows, tuple(leaks), has_values, digest)

    def _watched(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for an answer; what limit was passed meanwhile, '' none."""
        begun_s = time.monotonic()
        while not self._socket.poll(_SAMPLE_S):
            taken_s = time.monotonic() - begun_s
            if taken_s > self.limits.seconds + GRACE_S:
                return f"still computes after {taken_s:.1f} s"
            own, others = _resident(process.pid)
            if own - self._baseline > self.limits.answer_bytes:
                return f"the queried process grew by {(own - self._baseline) >> 20} MiB"
            if others > self.limits.memory_bytes * 1.25 + self._baseline:
                return f"a process holds {others >> 20} MiB"
        return ""

    def start(self) -> subprocess.Popen[bytes]:
        """A new process."""
        ours, theirs = socket.socketpair()
        stage = self.stage
        paths = os.pathsep.join({str(stage.folder), str(stage.folder.parent)})
        command = [
            sys.executable,
            "-P",
            "-m",
            "tests.hostile.sql.worker",
            str(theirs.fileno()),
            str(stage.run),
            ",".join(sorted(self.layers)),
            paths,
            str(stage.outside / "opened.txt"),
        ]
        with theirs, self.printed.open("ab") as printed:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                pass_fds=[theirs.fileno()],
                cwd=stage.work,
                env=stage.environ(),
                start_new_session=True,
            )
        self._socket = Connection(ours.detach())
        if not self._socket.poll(_START_S):
            raise TimeoutError("the process under attack does not start")
        try:
            self.limits = self._socket.recv()
        except EOFError:
            output = self.printed.read_text(errors="replace")
            raise RuntimeError(
                f"the process under attack does not start: {output[-2000:]}"
            ) from None
        self._socket.send(("SELECT 1", False))
        self._socket.recv()
        self._baseline = _resident(self._process.pid)[0]
        return self._process

    def remove_abort_message(self) -> bool:
        """Whether Arrow printed why it aborted the process, which no statement can word."""
        content = self.printed.read_bytes()
        rest = _ABORT_MESSAGE.sub(b"", content)
        if rest != content:
            self.printed.write_bytes(rest)
        return rest != content

    def kill(self) -> None:
        """End the process and all that it has started."""
        if self._process is None:
            return
        for pid in _descendants(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()
        self._process = None


def _descendants(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                found += _descendants(int(child))
    return found


def _resident(pid: int) -> tuple[int, int]:
    """Resident bytes of a process, and of the largest of those it has started."""
    sizes = [0]
    for number in _descendants(pid):
        with suppress(OSError, ValueError, IndexError):
            sizes.append(int(Path(f"/proc/{number}/statm").read_text().split()[1]) * _PAGE)
    return (sizes[1], max(sizes[2:], default=0)) if len(sizes) > 1 else (0, 0)
