"""Runs the server in this process: takes the port, starts uvicorn in a thread, stops it in time."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from app.access.access_files import AccessFiles
from app.access.sessions import Sessions
from app.analysis.run_board import board_of
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from app.uploads.uploads import uploads_of
from app.web.answers import stop_all
from app.web.bounded_http import Config
from app.web.connections import Connections, Limits, Listener, allowed_files
from app.web.job_sockets import JobSockets
from ingest.errors import UserError

START_S = 30.0
GRACE_S = 1
"""What requests under way get to end."""
STOP_S = 2.0
KEEP_ALIVE_S = 75
"""A connection without requests is kept longer than proxies and pages pause between two: one that
closes just as the next request is sent fails it."""
REST_S = 0.3
"""What imports and the list of runs get after that: leave() runs nothing that waits for an exit."""
_MOST_TRIED = 50
_SWITCH_S = 0.001
"""A thread that computes gives way to those that answer so soon: Python's own 5 ms add up over the
dozen turns that one request takes between the event loop and its thread.
"""
_LONGEST_SOCKET_MESSAGE = 1 << 16
_PACKED_SOCKETS = False
"""News are short, and frames are packed already as far as that is cheap: 30 kB for each browser."""


def take_port(settings: Settings, or_next: bool = False) -> Listener:
    """A bound socket; `or_next`: of the next free port where it is taken. Raises UserError."""
    try:
        found = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise UserError(f"--host {settings.host} is no address here ({error.strerror})") from error
    family, _, _, _, address = found[0]
    for port in range(settings.port, settings.port + (_MOST_TRIED if or_next else 1)):
        # asyncio turns Nagle's algorithm off only where the protocol is named: without it every
        # answer on a kept connection waited 40 ms for the acknowledgement of its header
        listener = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address[0], port, *address[2:]))
            listener.listen(256)  # on Linux a taken port may show only here
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise UserError(
                    f"{settings.host}:{port} cannot be listened on ({error.strerror}); "
                    "give another --host or --port"
                ) from error
    raise UserError(
        f"port {settings.port} of {settings.host} is taken; stop what listens there, or give "
        "another with --port (0: any free one)"
    )


@contextmanager
def running(
    hub: Hub, settings: Settings, listener: Listener, files: AccessFiles | None = None
) -> Iterator[threading.Thread]:
    """The server answers while the block runs; then it is stopped, whatever is under way.

    `files` keep sessions longer than the server. Yields its thread, which ends before the block
    only where the server has failed.
    """
    sys.setswitchinterval(_SWITCH_S)
    sessions = Sessions(files)
    connections = Connections(Limits.of(allowed_files()), sessions.is_valid)
    listener.connections = connections
    # asyncio's own loop accepts through the listener
    config = Config(
        make_app(hub, settings=settings, sessions=sessions),
        connections,
        ws=JobSockets,
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        log_level=logging.ERROR,  # not each malformed request
        proxy_headers=False,
        ws_max_size=_LONGEST_SOCKET_MESSAGE,
        ws_per_message_deflate=_PACKED_SOCKETS,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        ssl_certfile=settings.certfile or None,
        ssl_keyfile=settings.keyfile or None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="server", daemon=True)
    with sessions.followed(settings.tokens, settings.url(listener.getsockname()[1])):
        thread.start()
        try:
            _wait_for_start(server, thread)
            yield thread
        finally:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # cut requests are meant
            server.should_exit = True
            stop_all()
            uploads_of(hub).cancel()
            thread.join(STOP_S)
            uploads_of(hub).close(REST_S)
            board_of(hub).close(REST_S)
            hub.close()


def _wait_for_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline_s = time.monotonic() + START_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_s:
            raise UserError("the server did not start; its output says why")
        time.sleep(0.01)


def leave(code: int) -> None:
    """End the process with this code, once all that is to be kept is on disk.

    Threads of callbacks may still be in a query, which nothing stops, and Python would wait for
    them; DuckDB complains of its own types where threads are left at the interpreter's end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
