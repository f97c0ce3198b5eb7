"""The server's side: a statement is handed to its process, its rows are read, the process may end.

The process of one statement is forked by the one that holds the run's snapshot (holder), which is
started when the first statement comes, or before (`get_ready`), and ends some minutes after the
last.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from ingest.errors import UserError
from ingest.free_sql import wire
from ingest.free_sql.allow_list import check_text
from ingest.stopping import Interrupted, Stop
from ingest.time_limits import TimeLimits

_START_S = 60.0
"""What the process that holds a snapshot gets to start and to open it."""
_LONGEST_ANSWER = 1 << 16
_BUFFER_BYTES = 1 << 18
_MOST_RESTING = 8
"""Processes of one run that wait for a further statement of their session."""
_REST_S = 60.0
_MOST_HOLDERS = 8
"""Runs whose snapshot is held at once; the one whose last statement is longest ago makes room."""
_HANDED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_REMEDY = "ask for fewer ranks or steps"
_ENDED = (
    "the query failed: its process ended before its answer did, mostly because it needs more "
    f"memory than it may use; {_REMEDY}"
)
_limits = TimeLimits()


_Kind = tuple[str | None, Path, float | None]
"""Session, snapshot and time limit: what statements that share a process have in common."""


class SqlProcess:
    """Runs statements of strangers over one run; safe to use from many threads."""

    def __init__(
        self, run_folder: Path, index_folder: Path, with_content: bool = False,
        layers: frozenset[str] = wire.LAYERS,
    ) -> None:  # fmt: skip
        """`layers`: which of them hold; fewer than all is for tests that show that one suffices."""
        self._folders = run_folder.resolve(), index_folder.resolve()
        self._with_content = with_content
        self._layers = layers
        self._lock = threading.Lock()
        self._holder: _Holder | None = None
        self._resting: OrderedDict[_Kind, list[_Statement]] = OrderedDict()

    @contextmanager
    def reading(
        self, text: str, snapshot: Path, limit_s: float | None, stop: Stop | None = None,
        session: str | None = None,
    ) -> Iterator[pa.RecordBatchReader]:  # fmt: skip
        """Rows of one SELECT in batches, computed while they are read.

        Cheap statements of one `session` follow each other in one process; None shares none.
        Raises UserError (what is wrong with it), Interrupted (its time is over, or `stop`).
        """
        if "tree" in self._layers:
            check_text(text)
        kind = (session, snapshot, limit_s)
        statement = self._rested(kind) or self._statement(snapshot)
        over = Stop()
        stops = [over, stop] if stop is not None else [over]
        ends = partial(_ends_as_sentence, over, limit_s, stop)
        try:
            with _limits.limit(limit_s, over):
                with ends():
                    try:
                        stream = statement.begin(text, limit_s, stops)
                    except (wire.Ended, OSError):
                        if not statement.has_rested or any(one.called for one in stops):
                            raise
                        statement.end()  # it has ended while it waited
                        statement = self._statement(snapshot)
                        stream = statement.begin(text, limit_s, stops)
                batches = _checked(stream, statement, ends)
                yield pa.RecordBatchReader.from_batches(stream.schema, batches)
        finally:
            if session is not None and statement.may_follow:
                self._rest(kind, statement)
            else:
                statement.end()

    def _rested(self, kind: _Kind) -> _Statement | None:
        """A process that has answered a statement of this kind before, and lives."""
        with self._lock:
            kept = self._resting.get(kind)
            statement = kept.pop() if kept else None
        if statement is None:
            return None
        if statement.is_ready_again():
            return statement
        statement.end()
        return None

    def _rest(self, kind: _Kind, statement: _Statement) -> None:
        """Keep a process for the next statement of its kind; those of older ones end."""
        statement.rest()
        with self._lock:
            self._resting.setdefault(kind, []).append(statement)
            self._resting.move_to_end(kind)
            surplus = []
            while sum(map(len, self._resting.values())) > _MOST_RESTING:
                oldest = next(iter(self._resting))
                surplus += self._resting.pop(oldest)[:]
        for one in surplus:
            one.end()

    def get_ready(self, snapshot: Path) -> None:
        """Start what the first statement would wait for."""
        self._statement(snapshot).end()

    def _statement(self, snapshot: Path) -> _Statement:
        with self._lock:
            try:
                return self._held().statement(snapshot)
            except (OSError, wire.Ended, ValueError):  # it ended while nobody asked
                self._close_holder()
            try:
                return self._held().statement(snapshot)
            except (OSError, wire.Ended, ValueError) as error:
                self._close_holder()
                raise UserError(
                    "the process that runs SQL does not start; the server's output says why"
                ) from error

    def _held(self) -> _Holder:
        if self._holder is None or self._holder.is_worn:
            if self._holder is not None:
                self._holder.retire()
            self._holder = _Holder(*self._folders, self._with_content, self._layers)
        return self._holder

    def _close_holder(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    def close(self) -> None:
        """End all of its processes."""
        with self._lock:
            resting = [one for kept in self._resting.values() for one in kept]
            self._resting.clear()
            self._close_holder()
        for one in resting:
            one.end()


@contextmanager
def _ends_as_sentence(over: Stop, limit_s: float | None, stop: Stop | None) -> Iterator[None]:
    """Say why a process ended before its answer did."""
    try:
        yield
    except (wire.Ended, OSError, ValueError, pa.ArrowException) as error:
        if stop is not None and stop.called:
            why: UserError = Interrupted(f"the query was interrupted; {_REMEDY}")
        elif over.called:
            why = Interrupted(f"the query took longer than {limit_s} s; {_REMEDY}")
        else:
            why = UserError(_ENDED)
        raise why from error


class _Holder:
    """A running process of free_sql.holder."""

    _running: ClassVar[list[_Holder]] = []  # the one asked last at the end
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
        with _Holder._running_lock:
            idle = [one for one in _Holder._running if not one._num_statements]
            _Holder._running.append(self)
            too_many = idle[: max(0, len(_Holder._running) - _MOST_HOLDERS)]
        for one in too_many:
            one.close()

    def statement(self, snapshot: Path) -> _Statement:
        """A process that waits for its statement; raises OSError, Ended, ValueError, UserError."""
        self.entered()
        with _Holder._running_lock:
            if self in _Holder._running:
                _Holder._running.remove(self)
                _Holder._running.append(self)
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
        return _Statement(self, answer["pid"], socket.socket(fileno=files[0]))

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
        with _Holder._running_lock:
            if self in _Holder._running:
                _Holder._running.remove(self)
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


class _Statement:
    """The process of a statement."""

    def __init__(self, holder: _Holder, pid: int, line: socket.socket) -> None:
        self._holder = holder
        self._pid = pid
        self._line = line
        self._file = line.makefile("rb", buffering=_BUFFER_BYTES)
        self._frames: _Frames | None = None
        self._rests_since_s: float | None = None
        self._is_interrupted = False
        self.has_rested = False

    def begin(
        self, text: str, limit_s: float | None, stops: Sequence[Stop]
    ) -> pa.RecordBatchReader:
        """Hand it its text; its rows. Raises UserError, Ended, ArrowException, also while read."""
        for stop in stops:
            stop.attach(self)
        wire.write_message(self._line.fileno(), {"text": text, "limit_s": limit_s})
        self._frames = _Frames(self._file.read)
        return pa.ipc.open_stream(io.BufferedReader(self._frames, _BUFFER_BYTES))

    def finish(self) -> None:
        """Read what follows the last row; raises Ended, UserError."""
        if self._frames is not None:
            self._frames.finish()

    @property
    def may_follow(self) -> bool:
        """Whether it takes another statement."""
        is_reusable = self._frames is not None and self._frames.end == wire.REUSABLE
        return is_reusable and not self._is_interrupted

    def rest(self) -> None:
        """It waits for a further statement, and is let go where its holder has to make room."""
        self._rests_since_s = time.monotonic()
        self.has_rested = True
        self._holder.left()

    def is_ready_again(self) -> bool:
        """Whether it still waits; it counts as under way from now on."""
        rested_s = time.monotonic() - (self._rests_since_s or 0.0)
        self._rests_since_s = None
        self._frames = None
        self._holder.entered()
        try:
            self._line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return rested_s < _REST_S
        except OSError:
            pass
        return False  # it has ended, or says what nobody asked for

    def interrupt(self) -> None:
        """End it, from another thread; whoever reads from it sees the end."""
        self._is_interrupted = True
        self._holder.kill(self._pid)
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """It is not needed any more."""
        if self._file.closed:
            return
        self._holder.kill(self._pid)
        self._file.close()
        self._line.close()
        if self._rests_since_s is None:
            self._holder.left()


def _checked(
    stream: pa.RecordBatchReader,
    statement: _Statement,
    ends: Callable[[], AbstractContextManager[None]],
) -> Iterator[pa.RecordBatch]:
    """The batches; one that is not what it says raises before anybody reads it."""
    while True:
        with ends():
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                statement.finish()
                return
            batch.validate(full=True)
        yield batch


class _Frames(io.RawIOBase):
    """The data of the frames as a file for Arrow; an error among them is raised."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read
        self._rest = memoryview(b"")
        self.end: bytes | None = None

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, wanted: Any) -> int:
        """As much as there is, at most what fits; 0 at the end."""
        if not self._rest:
            self._rest = memoryview(self._next())
        size = min(len(wanted), len(self._rest))
        wanted[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def finish(self) -> None:
        """Read to the end; raises UserError, Ended."""
        while self._next():
            pass

    def _next(self) -> bytes:
        """The next data, b'' at the end."""
        if self.end is not None:
            return b""
        kind, content = wire.read_frame(self._read)
        if kind == wire.ERROR:
            raise UserError(content.decode(errors="replace"))
        if kind == wire.END:
            self.end = content
            return b""
        return content
