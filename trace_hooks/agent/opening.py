"""Opens a rank's connection to the server: by the relay of its host, else by itself.

A relay that is there decides: where it cannot reach the server, the rank tries again later, through
it again, so that all ranks of a host have one connection. Without one, or where it dies or hangs,
the rank connects as if there had never been one.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from trace_hooks.agent.log_messages import SILENT_LOGGER
from trace_hooks.protocol.server_address import PATH, Address
from trace_hooks.watchdog import relay_socket

OPEN_S = 5.0
START_S = 20.0
"""A relay that starts together with its ranks is awaited this long, and longer by nobody."""
LOOK_S = 0.05
SEND_MS = 10_000
"""A server, or a relay, that reads nothing for this long is given up; another try follows."""
_RELAY_URL = f"ws://relay{PATH}"
_LONGEST_COMMAND = 1 << 20


class Opening:
    """Opens connections of one rank; for one thread.

    `meeting`: folder in which the relay of this host listens; None: the rank always connects by
    itself. `stopping`: no relay is awaited once it is set.
    """

    def __init__(self, address: Address, meeting: Path | None, stopping: threading.Event) -> None:
        self._address, self._meeting, self._stopping = address, meeting, stopping
        self._awaited_until_s = time.monotonic() + START_S

    def open(self) -> ClientConnection:
        """A new connection; raises OSError, EOFError and WebSocketException."""
        return self._through_relay() or self._to_server()

    def _through_relay(self) -> ClientConnection | None:
        """A connection by the relay; None where there is none, or it is of no use.

        Raises InvalidStatus where the relay says why the server cannot be reached.
        """
        opened = self._relay()
        if opened is None:
            return None
        self._awaited_until_s = 0.0
        try:
            return _connected(opened, unix=True, uri=_RELAY_URL)
        except InvalidStatus as error:
            if error.response.status_code != relay_socket.NOT_SHARED:
                raise
        except (OSError, EOFError, WebSocketException):  # it has died meanwhile, or hangs
            pass
        return None

    def _relay(self) -> socket.socket | None:
        while self._meeting is not None:
            try:
                return relay_socket.connected(self._meeting, self._address, OPEN_S)
            except OSError:
                late = time.monotonic() >= self._awaited_until_s
                if late or self._stopping.wait(LOOK_S):
                    break
        return None

    def _to_server(self) -> ClientConnection:
        # our own socket: a proxy of the environment must not get the token
        opened = socket.create_connection(self._address.host_and_port, OPEN_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {"Authorization": f"Bearer {self._address.token}"}
        return _connected(opened, uri=self._address.url, additional_headers=headers)


def _limit_sending(opened: socket.socket) -> None:
    """Give the other side up once it has read nothing for SEND_MS.

    Not with `settimeout`: websockets before 17 would give up a server that says nothing for as
    long, too.
    """
    opened.settimeout(None)
    if opened.family == socket.AF_UNIX:
        limit = struct.pack("@ll", *divmod(SEND_MS * 1_000, 1_000_000))  # seconds, microseconds
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    elif hasattr(socket, "TCP_USER_TIMEOUT"):  # the other limit does not hold for TLS
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SEND_MS)
    else:  # not Linux
        opened.settimeout(SEND_MS / 1_000)


def _connected(opened: socket.socket, **how: Any) -> ClientConnection:
    try:
        _limit_sending(opened)
        connection: ClientConnection = connect(
            sock=opened,
            **how,
            compression=None,
            open_timeout=OPEN_S,
            close_timeout=1.0,
            max_size=_LONGEST_COMMAND,
            logger=SILENT_LOGGER,
        )
    except BaseException:
        opened.close()
        raise
    return connection
