"""The server's connections: how many, how long they may be idle, and which are dropped first.

A connection is unknown until the guard (app.access.auth) lets in a request on it. Unknown
connections have a small pool of file descriptors: when all are in use, the server drops the oldest
unknown connection for the new one. So clients without a token lock out nobody who has one, and
/healthz always answers.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import select
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import Scope

from trace_hooks.protocol.stall import Stall

CONNECTION = "rankscope_connection"
"""Key in the state of the ASGI scope; missing if the request did not come through our socket."""
HEAD_S = 10.0
"""Time limit for a TLS handshake, for the head of a request, and to close the connection after an
answer that did not wait for the rest of the body."""
BODY_IDLE_S = 60.0
"""A body is cut off this long after its last bytes; there is no limit while bytes arrive."""
STALLED_S = 60.0
"""A client that reads nothing of its answer for this long is dropped."""
SWEEP_S = 1.0
_MOST_FILES = 1 << 16
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True)
class Limits:
    """Limits on connections; the remaining file descriptors are for files."""

    unknown: int
    known: int
    per_session: int
    per_token: int
    jobs: int

    @staticmethod
    def of(num_files: int) -> Limits:
        """Limits for a process that may have this many file descriptors."""
        unknown = max(8, min(256, num_files // 8))
        known = num_files - unknown - min(512, num_files // 2)
        quarter = max(8, known // 4)
        return Limits(unknown, known, quarter, max(8, known // 2), known - min(1_024, quarter))


def allowed_files() -> int:
    """Raise this process's limit of file descriptors as far as possible and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return min(soft, _MOST_FILES) if soft != resource.RLIM_INFINITY else _MOST_FILES


class Connection:
    """One accepted socket and what is known of it."""

    def __init__(self, connections: Connections, accepted: socket.socket, now_s: float) -> None:
        self.connections = connections
        self.socket = accepted
        self.transport: asyncio.Transport | None = None  # None during a TLS handshake
        self.deadline_s: float | None = now_s + HEAD_S
        self.is_idle = True
        """Whether no request is running on it."""
        self.session: str | None = None  # None: unknown
        self.token = ""
        self._stall = Stall()

    @property
    def is_open(self) -> bool:
        """Whether it still has its file descriptor."""
        return self.socket.fileno() != -1

    def drop(self) -> None:
        """Close it at once; its file descriptor is free after the next turn of the event loop.

        A session's connection makes room for another at once. An unknown connection counts until it
        is closed, because the limit is on the descriptors of unknown connections.
        """
        if self.session is not None:
            self.connections.forget(self)
        if self.transport is not None:
            self.transport.abort()
        else:
            with suppress(OSError):  # closed already
                self.socket.shutdown(socket.SHUT_RDWR)

    def let_in(self, session: str, token: str = "", is_rank: bool = False) -> bool:
        """Count it for a session from now on, opened with the token of this digest.

        False if the session, its token or the server has too many. A user's session may have
        `per_session` connections, all ranks together `jobs`.
        """
        return self.connections.let_in(self, session, token, is_rank)

    def is_late(self, now_s: float) -> bool:
        """Whether it has exceeded its deadline or its client reads nothing."""
        return (self.deadline_s is not None and now_s > self.deadline_s) or self._stalls(now_s)

    def _stalls(self, now_s: float) -> bool:
        unsent = self.transport.get_write_buffer_size() if self.transport is not None else 0
        return self._stall.look(unsent, now_s) > STALLED_S


class Connections:
    """All connections of one server; used only by the thread of its event loop."""

    def __init__(
        self, limits: Limits, is_valid: Callable[[str, str], bool] = lambda _session, _token: True
    ) -> None:
        self.limits = limits
        self._is_valid = is_valid  # whether a session and its token are still valid
        self._accepted: dict[int, Connection] = {}  # by file descriptor, without a transport yet
        self._unknown: dict[Connection, None] = {}  # oldest first
        self._known: dict[str, dict[Connection, None]] = defaultdict(dict)
        self._num_of_token: Counter[str] = Counter()
        self._is_sweeping = False

    def make_room(self) -> None:
        """Return if one more connection may be accepted.

        Otherwise drop the oldest unknown connections and raise BlockingIOError: their descriptors
        are free after the next turn of the event loop, which then accepts again.
        """
        self._forget_closed()
        if len(self._unknown) >= self.limits.unknown:
            self.drop_oldest()
            raise BlockingIOError(errno.EAGAIN, "making room for the next connection")

    def drop_oldest(self) -> bool:
        """Drop some of the oldest unknown connections; False if there were none."""
        oldest = list(self._unknown)[: max(1, self.limits.unknown // 8)]
        for connection in oldest:
            connection.drop()
        return bool(oldest)

    def add(self, accepted: socket.socket) -> None:
        """Start to count an accepted socket."""
        loop = asyncio.get_running_loop()
        connection = Connection(self, accepted, loop.time())
        self._accepted[accepted.fileno()] = connection
        self._unknown[connection] = None
        if not self._is_sweeping:
            self._is_sweeping = True
            loop.call_later(SWEEP_S, self._sweep, loop)

    def of(self, transport: asyncio.Transport) -> Connection:
        """The connection of a transport that was just made."""
        connection = self._accepted.pop(transport.get_extra_info("socket").fileno())
        connection.transport = transport
        return connection

    def let_in(self, connection: Connection, session: str, token: str, is_rank: bool) -> bool:
        """See Connection.let_in."""
        if connection.session == session:
            return True
        share = self.limits.jobs if is_rank else self.limits.per_session
        if len(self._known.get(session, ())) >= share:
            pool: Iterable[Connection] = self._known[session]
        elif token and self._num_of_token[token] >= self.limits.per_token:
            pool = (known for known in self._all_known() if known.token == token)
        else:
            is_full = sum(map(len, self._known.values())) >= self.limits.known
            pool = self._all_known() if is_full else (connection,)
        idle = next((other for other in pool if other is connection or other.is_idle), None)
        if idle is None:
            return False
        if idle is not connection:
            idle.drop()
        self.forget(connection)
        connection.session, connection.token = session, token
        self._known[session][connection] = None
        self._num_of_token[token] += 1
        return True

    def forget(self, connection: Connection) -> None:
        """Stop counting it here: it was closed or counts for a session from now on."""
        self._unknown.pop(connection, None)
        if connection.session is not None:
            mine = self._known[connection.session]
            if connection in mine:
                del mine[connection]
                self._num_of_token[connection.token] -= 1
            if not mine:
                del self._known[connection.session]

    def _all_known(self) -> Iterator[Connection]:
        return (connection for mine in self._known.values() for connection in mine)

    def _forget_closed(self) -> None:
        """Forget connections that closed without a callback, such as failed TLS handshakes."""
        for closed in [unknown for unknown in self._unknown if not unknown.is_open]:
            self.forget(closed)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Drop connections that are late or whose session has ended."""
        self._forget_closed()
        now_s = loop.time()
        known = list(self._all_known())
        for connection in [*self._unknown, *known]:
            if connection.is_late(now_s):
                connection.drop()
        for connection in known:
            if connection.token and not self._is_valid(connection.session or "", connection.token):
                connection.drop()
        self._is_sweeping = bool(self._unknown or self._known)
        if self._is_sweeping:
            loop.call_later(SWEEP_S, self._sweep, loop)


class Listener(socket.socket):
    """A listening socket whose connections are counted and limited."""

    connections: Connections | None = None

    def accept(self) -> tuple[socket.socket, object]:
        """As usual; raises BlockingIOError while making room: the event loop then tries again."""
        if self.connections is None:
            return super().accept()
        if not self._has_pending():  # then no connection has to be dropped
            raise BlockingIOError(errno.EAGAIN, "no connection is pending")
        self.connections.make_room()
        try:
            accepted, address = super().accept()
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR and self.connections.drop_oldest():
                raise BlockingIOError(errno.EAGAIN, "making room") from error
            raise  # the event loop waits for a second
        self.connections.add(accepted)
        return accepted, address

    def _has_pending(self) -> bool:
        poll = select.poll()
        poll.register(self, select.POLLIN)
        return bool(poll.poll(0))


def connection_of(scope: Scope) -> Connection | None:
    """The connection that carries a request; None in a test without a socket."""
    connection: Connection | None = scope.get("state", {}).get(CONNECTION)
    return connection
