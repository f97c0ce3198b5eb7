"""The Unix socket in a host's meeting folder at which its relay takes the connections of its ranks.

Its name follows from server and token, so a rank that is to talk to another server, or with another
token, does not find it. Only the job's user may enter the folder.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_hooks.job.process_info import short_hash
from trace_hooks.protocol.server_address import Address

NOT_REACHED, NOT_SHARED = 503, 501
"""A relay's answers to a rank, as HTTP statuses: the server cannot be reached; it takes no socket
of several ranks. Others are the server's own.
"""


def listening(meeting: Path, address: Address) -> socket.socket:
    """A socket bound for ranks; it takes the place of an earlier relay's. Raises OSError."""
    path = _path(meeting, address)
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as short:
            bound.bind(short)
    except OSError:
        bound.close()
        raise
    return bound


def connected(meeting: Path, address: Address, timeout_s: float) -> socket.socket:
    """A connection to the host's relay; raises OSError where there is none."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.settimeout(timeout_s)
    try:
        with _short(_path(meeting, address)) as short:
            opened.connect(short)
    except OSError:
        opened.close()
        raise
    return opened


def _path(meeting: Path, address: Address) -> Path:
    return meeting / f"relay-{short_hash(address.server, address.token)}.sock"


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The same path in fewer bytes: the address of a Unix socket has room for 107."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
