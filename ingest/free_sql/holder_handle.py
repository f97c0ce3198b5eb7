"""The process that holds a snapshot, as the server sees it: it is started, asked and ended here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from ingest.errors import UserError
from ingest.free_sql import wire
from ingest.free_sql.statement_handle import StatementHandle

_START_S = 60.0
"""What the process gets to start and to open the snapshot."""
_LONGEST_ANSWER = 1 << 16
_MOST_HOLDERS = 8
"""Runs whose snapshot is held at once; the one whose last statement is longest ago makes room."""
_HANDED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


class HolderHandle:
    """A running process of free_sql.holder."""

    _running: ClassVar[list[HolderHandle]] = []  # the one asked last at the end
    _running_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self, run_folder: Path, index_folder: Path, with_content: bool, layers: frozenset[str]
    ) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_START_S)
        command = [sys.executable, "-P", "-m", "ingest.free_sql.holder", str(theirs.fileno())]
        command += [str(run_folder), str(index_folder), ",".join(sorted(layers))]
        with theirs:
            self._process = subprocess.Popen(
                command + (["--with-content"] if with_content else []),
                env=_environment(), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.is_worn = False
        self._is_retired = False
        self._num_statements = 0
        self._lock = threading.Lock()
        self._make_room()

    def _make_room(self) -> None:
        with HolderHandle._running_lock:
            idle = [one for one in HolderHandle._running if not one._num_statements]
            HolderHandle._running.append(self)
            too_many = idle[: max(0, len(HolderHandle._running) - _MOST_HOLDERS)]
        for one in too_many:
            one.close()

    def statement(self, snapshot: Path) -> StatementHandle:
        """A process that waits for its statement; raises OSError, Ended, ValueError, UserError."""
        self.entered()
        with HolderHandle._running_lock:
            if self in HolderHandle._running:
                HolderHandle._running.remove(self)
                HolderHandle._running.append(self)
        try:
            self._control.send(json.dumps({"snapshot": str(snapshot)}).encode())
            content, files, _, _ = socket.recv_fds(self._control, _LONGEST_ANSWER, 1)
            if not content:
                raise wire.Ended
            answer = json.loads(content)
            if "error" in answer:
                raise UserError(f"the index cannot be opened: {answer['error']}")
        except BaseException:
            self.left()
            raise
        self.is_worn = answer["is_worn"]
        return StatementHandle(self, answer["pid"], socket.socket(fileno=files[0]))

    def kill(self, pid: int) -> None:
        """Have a statement's process end, if it has not yet."""
        with suppress(OSError):
            self._control.send(json.dumps({"kill": pid}).encode())

    def entered(self) -> None:
        """A statement is under way."""
        with self._lock:
            self._num_statements += 1

    def left(self) -> None:
        """A statement has ended."""
        with self._lock:
            self._num_statements -= 1
            is_last = self._is_retired and not self._num_statements
        if is_last:
            self.close()

    def retire(self) -> None:
        """End once the last statement has."""
        with self._lock:
            self._is_retired = True
            is_last = not self._num_statements
        if is_last:
            self.close()

    def close(self) -> None:
        """End it, and with it the processes of its statements."""
        with HolderHandle._running_lock:
            if self in HolderHandle._running:
                HolderHandle._running.remove(self)
        self._control.close()
        self._process.kill()
        self._process.wait()


def _environment() -> dict[str, str]:
    """Of the server's, what a Python needs: secrets are none of it."""
    handed_on = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    return handed_on | {
        "PYTHONPATH": os.pathsep.join(part for part in sys.path if part),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
