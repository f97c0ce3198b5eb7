"""The process that holds a snapshot, as the server sees it: the server starts it, sends it requests
and ends it here.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from ingest.errors import UserError
from ingest.free_sql import wire
from ingest.free_sql.statement_handle import StatementHandle

_START_S = 60.0
"""What the process gets to start and to open the snapshot."""
_LOOK_EVERY_S = 0.05
"""How often a wait for the process looks whether its statement was stopped."""
_MOST_HOLDERS = 8
"""Runs whose snapshot is held at once; beyond that, the least recently used idle one is closed."""
_HANDED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


class HolderHandle:
    """A running process of free_sql.holder."""

    _running: ClassVar[list[HolderHandle]] = []  # the last one used at the end
    _running_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self, run_folder: Path, index_folder: Path, with_content: bool, layers: frozenset[str]
    ) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_LOOK_EVERY_S)
        command = [sys.executable, "-P", "-m", "ingest.free_sql.holder", str(theirs.fileno())]
        # the process stands in another folder
        command += [str(run_folder.absolute()), str(index_folder.absolute())]
        command += [",".join(sorted(layers))]
        with theirs:
            self._process = subprocess.Popen(
                command + (["--with-content"] if with_content else []),
                env=_environment(),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.is_worn = False
        self._is_retired = False
        self._is_closed = False
        self._num_statements = 0
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # one request at a time
        self._request_sent_s: float | None = (
            None  # when the request was sent that has no answer yet
        )
        self._make_room()

    def _make_room(self) -> None:
        with HolderHandle._running_lock:
            surplus = max(0, len(HolderHandle._running) + 1 - _MOST_HOLDERS)
            idle = (handle for handle in HolderHandle._running if handle._is_closed_if_idle())
            too_many = list(islice(idle, surplus))
            HolderHandle._running.append(self)
        for handle in too_many:
            handle.close()

    def _is_closed_if_idle(self) -> bool:
        """Whether no statement is under way; from then on it takes none."""
        with self._lock:
            self._is_closed = self._is_closed or not self._num_statements
            return self._is_closed

    def statement(self, snapshot: Path, is_over: Callable[[], bool]) -> StatementHandle:
        """A process that waits for its statement; raises OSError, Ended, ValueError, UserError.

        Ended also as soon as `is_over()`: the statement was stopped, or its time is over.
        """
        self.entered()
        with HolderHandle._running_lock:
            if self in HolderHandle._running:
                HolderHandle._running.remove(self)
                HolderHandle._running.append(self)
        try:
            answer, line = self._exchanged({"snapshot": str(snapshot.absolute())}, is_over)
            if "error" in answer:
                raise UserError(answer["error"])
            if line is None:  # the kernel has dropped it, and the process ends
                raise UserError("the server has too many files open for a query; try again later")
            self.is_worn = answer["is_worn"]
            return StatementHandle(self, answer["pid"], line)
        except BaseException:
            self.left()
            raise

    def _exchanged(
        self, request: dict[str, Any], is_over: Callable[[], bool]
    ) -> tuple[dict[str, Any], socket.socket | None]:
        """What the process answers to a request, with the socket that comes with it."""
        while not self._asking.acquire(timeout=_LOOK_EVERY_S):
            if is_over():
                raise wire.Ended
        try:
            if self._request_sent_s is not None:  # by a statement that was stopped while it waited
                _, late = self._answer(is_over)
                if late is not None:
                    late.close()  # with which the process of that statement ends
            self._control.send(json.dumps(request).encode())
            self._request_sent_s = time.monotonic()
            return self._answer(is_over)
        finally:
            self._asking.release()

    def _answer(self, is_over: Callable[[], bool]) -> tuple[dict[str, Any], socket.socket | None]:
        """The answer to the request that was sent last."""
        deadline_s = (self._request_sent_s or time.monotonic()) + _START_S
        while not is_over():
            try:
                content, files, _, _ = socket.recv_fds(self._control, wire.LONGEST_PACKET, 1)
            except TimeoutError:
                if time.monotonic() > deadline_s:
                    raise
                continue
            if not content:
                raise wire.Ended
            self._request_sent_s = None
            return json.loads(content), socket.socket(fileno=files[0]) if files else None
        raise wire.Ended

    def kill(self, pid: int) -> None:
        """Have a statement's process end, if it has not yet."""
        with suppress(OSError):
            self._control.send(json.dumps({"kill": pid}).encode())

    def entered(self) -> None:
        """A statement is under way; raises OSError where it takes none any more."""
        with self._lock:
            if self._is_closed:
                raise OSError(errno.EPIPE, "the process that holds the snapshot was closed")
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
        """End it, and with it the processes of its statements; who waits for one sees the end."""
        with self._lock:
            self._is_closed = True
        with HolderHandle._running_lock:
            if self in HolderHandle._running:
                HolderHandle._running.remove(self)
        with suppress(OSError):  # closed already
            self._control.shutdown(socket.SHUT_RDWR)
        self._process.kill()
        self._process.wait()
        with self._asking:
            self._control.close()


def _environment() -> dict[str, str]:
    """Those of the server's variables that Python needs: no secrets."""
    handed_on = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    return handed_on | {
        "PYTHONPATH": os.pathsep.join(part for part in sys.path if part),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
