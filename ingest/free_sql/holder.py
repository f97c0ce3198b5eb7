"""The process that holds a run's newest snapshot open and forks one process for each statement.

It has one thread, so that it can be forked, and has a statement's process ready before the
statement comes. Started by sql_process with a socket; it ends with the server, or when that closes
the socket.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import selectors
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

from ingest.free_sql import kernel, wire
from ingest.free_sql.connection import RunDatabase
from ingest.free_sql.statement import rehearse, run_statements
from ingest.query.query_errors import sentence

_IDLE_S = 600.0
"""After this long without a request the process ends; the next request starts it again."""
_MOST_SHOWN = 100
"""Snapshots that one process opens: DuckDB keeps a little of each. Then another takes over."""


class _Holder:
    def __init__(
        self,
        control: socket.socket,
        database: RunDatabase,
        layers: frozenset[str],
        addresses: kernel.Addresses,
    ) -> None:
        self._control = control
        self._layers = layers
        self._database = database
        self._addresses = addresses
        self._snapshot: Path | None = None
        self._ready: tuple[int, socket.socket] | None = None
        self._children: set[int] = set()

    def serve(self) -> None:
        """Answer requests until the server closes the socket."""
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        woken.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._control, selectors.EVENT_READ)
            waiting.register(woken, selectors.EVENT_READ)
            while True:
                events = waiting.select(_IDLE_S)
                if not events and not self._children - {self._ready and self._ready[0]}:
                    return
                for key, _ in events:
                    if key.fileobj is woken:
                        woken.recv(4096)
                    elif not self._take():
                        return
                self._reap()

    def _take(self) -> bool:
        """One request; False where the server has gone."""
        content = self._control.recv(wire.LONGEST_PACKET)
        if not content:
            return False
        request = json.loads(content)
        if "kill" not in request:
            self._hand_out(Path(request["snapshot"]))
        elif request["kill"] in self._children:  # not waited for yet: the number is still its own
            os.kill(request["kill"], signal.SIGKILL)
        return True

    def _hand_out(self, snapshot: Path) -> None:
        """Answer with a process for a statement, and have the next one ready."""
        try:
            self._show(snapshot)
        except (duckdb.Error, OSError) as error:
            reason = sentence(error).removeprefix("SQL: ")
            return self._send({"error": f"the index cannot be opened: {reason}"})
        try:
            pid, theirs = self._ready or self._forked()
        except OSError as error:
            reason = f"no process can be started for the query ({error.strerror})"
            return self._send({"error": f"{reason}; try again in a moment"})
        self._ready = None
        self._send({"pid": pid, "is_worn": self._database.num_shown >= _MOST_SHOWN}, theirs)
        theirs.close()
        with suppress(OSError):  # the next statement tries again, and reports why it fails
            self._ready = self._forked()

    def _send(self, answer: dict[str, Any], theirs: socket.socket | None = None) -> None:
        files = [theirs.fileno()] if theirs else []
        socket.send_fds(self._control, [json.dumps(answer).encode()], files)

    def _show(self, snapshot: Path) -> None:
        if snapshot == self._snapshot:
            return
        self._drop_ready()
        self._snapshot = None
        self._database.show(snapshot)
        self._snapshot = snapshot
        gc.collect()
        gc.freeze()

    def _drop_ready(self) -> None:
        if self._ready:
            os.kill(self._ready[0], signal.SIGKILL)
            self._ready[1].close()
            self._ready = None

    def _forked(self) -> tuple[int, socket.socket]:
        """A process that waits for a statement, and the server's end of its socket."""
        taken_bytes = self._addresses.bytes_taken()
        own, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            own.close()
            theirs.close()
            raise
        if not pid:
            kernel.die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            theirs.close()
            run_statements(own.fileno(), self._database, self._layers, taken_bytes)
        own.close()
        self._children.add(pid)
        return pid, theirs

    def _reap(self) -> None:
        for pid in list(self._children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._children.discard(pid)
                if self._ready and self._ready[0] == pid:
                    self._ready[1].close()
                    self._ready = None


def main() -> None:
    """Hold a run for the server at the other end of the socket."""
    parser = argparse.ArgumentParser()
    parser.add_argument("control", type=int)
    parser.add_argument("run_folder", type=Path)
    parser.add_argument("index_folder", type=Path)
    parser.add_argument("layers")
    parser.add_argument("--with-content", action="store_true")
    arguments = parser.parse_args()
    layers = frozenset(arguments.layers.split(","))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    os.chdir("/")
    rehearse()
    database = RunDatabase(arguments.run_folder, arguments.with_content, "connection" in layers)
    addresses = kernel.Addresses()
    if "kernel" in layers:
        kernel.end_first()
        kernel.only_read([arguments.run_folder, arguments.index_folder])
    with socket.socket(fileno=arguments.control) as control:
        _Holder(control, database, layers, addresses).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
