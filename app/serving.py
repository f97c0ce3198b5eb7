"""Runs the server in this process: binds the port, starts uvicorn in a thread, stops it in time."""

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
from app.analysis.fleet.board import fleet_board_of
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
"""Time for running requests to finish."""
STOP_S = 2.0
KEEP_ALIVE_S = 75
"""An idle connection stays open longer than proxies and pages pause between two requests: if it
closed just as the next request is sent, that request would fail."""
REST_S = 0.3
"""Extra time for imports and the list of runs: leave() does not run exit handlers."""
_MOST_TRIED = 50
_SWITCH_S = 0.001
"""A computing thread yields to answering threads after this time: Python's default of 5 ms adds up
over the dozen switches of one request between the event loop and its thread.
"""
_LONGEST_SOCKET_MESSAGE = 1 << 16
_PACKED_SOCKETS = False
"""Notifications are short, and frames are compressed already; compression costs 30 kB a browser."""


def take_port(settings: Settings, or_next: bool = False) -> Listener:
    """A bound socket; `or_next`: of the next free port if the port is taken. Raises UserError."""
    try:
        addresses = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise UserError(
            f"--host {settings.host} is not an address of this machine ({error.strerror})"
        ) from error
    family, _, _, _, address = addresses[0]
    for port in range(settings.port, settings.port + (_MOST_TRIED if or_next else 1)):
        # asyncio turns Nagle's algorithm off only for sockets that name their protocol: without it
        # every answer on a keep-alive connection waited 40 ms for its header's acknowledgement
        listener = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address[0], port, *address[2:]))
            listener.listen(256)  # on Linux a taken port may fail only here
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise UserError(
                    f"cannot listen on {settings.host}:{port} ({error.strerror}); "
                    "give another --host or --port"
                ) from error
    raise UserError(
        f"port {settings.port} of {settings.host} is taken; stop the program that uses it, or give "
        "another with --port (0: any free one)"
    )


@contextmanager
def running(
    hub: Hub, settings: Settings, listener: Listener, files: AccessFiles | None = None
) -> Iterator[threading.Thread]:
    """Run the server while the block runs; then stop it, including running requests.

    With `files`, sessions outlive the server. Yields the server's thread, which ends before the
    block only if the server has failed.
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
            # cancelled requests are intended
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            server.should_exit = True
            stop_all()
            uploads_of(hub).cancel()
            thread.join(STOP_S)
            uploads_of(hub).close(REST_S)
            board_of(hub).close(REST_S)
            fleet_board_of(hub).close(REST_S)
            hub.close()


def _wait_for_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline_s = time.monotonic() + START_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline_s:
            raise UserError("the server did not start; the messages above say why")
        time.sleep(0.01)


def leave(code: int) -> None:
    """End the process with this code; call it once everything is on disk.

    Threads of callbacks may still run a query, which cannot be stopped, and Python would wait for
    them; DuckDB prints errors if threads are left when the interpreter ends.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
