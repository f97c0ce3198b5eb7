"""A line to a server that breaks on command: every connection through it is cut at once."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CutLine:
    """Passes bytes between a port of its own and a server's.

    After `cut_after` bytes from the browser all connections are cut, once; while it `is_down`
    (after such a cut, where it `stays_down`) new ones are cut at once.
    """

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self.is_down = False
        self.stays_down = False
        self.cut_after: int | None = None
        self.num_cuts = 0
        self._sent = 0
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve)]

    @property
    def url(self) -> str:
        """Where browsers reach the server through it."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection."""
        self.is_down = self.stays_down
        self.num_cuts += 1
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                browser, _ = self._listener.accept()
            except OSError:  # closed
                return
            if self.is_down:
                browser.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.to_port))
            except OSError:  # the server is being started again
                browser.close()
                continue
            with self._lock:
                self._open += [browser, server]
            for source, target, is_upwards in ((browser, server, True), (server, browser, False)):
                thread = threading.Thread(target=self._pass, args=(source, target, is_upwards))
                thread.start()
                self._threads.append(thread)

    def _pass(self, source: socket.socket, target: socket.socket, is_upwards: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(piece)
                if is_upwards:
                    self._count(len(piece))
            target.shutdown(socket.SHUT_WR)
        source.close()

    def _count(self, num_bytes: int) -> None:
        self._sent += num_bytes
        if self.cut_after is not None and self._sent >= self.cut_after:
            self.cut_after = None
            self.cut()

    def __enter__(self) -> CutLine:
        self._threads[0].start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(60)
