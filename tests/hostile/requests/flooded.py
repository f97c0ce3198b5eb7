"""`rankscope serve` with few file descriptors, and clients that end no request."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.app.server.served import ask
from tests.runs_builder import two_rank_run

SECRET = "correct-horse-battery"
BEARER = {"Authorization": f"Bearer {SECRET}"}
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
WAIT_S = 60.0
_CODE = (
    "import resource, sys; from app.cli import main; n = int(sys.argv.pop(1)); "
    "resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)); sys.exit(main())"
)


@dataclass(frozen=True)
class Flooded:
    """A server and its address."""

    address: str
    process: subprocess.Popen[str]

    def ask(self, path: str, **headers: str) -> int:
        """Status of a request."""
        return ask(self.address, path, **headers)[0]

    def connect(self) -> socket.socket:
        """A connection that has sent nothing."""
        host, _, port = self.address.partition(":")
        return socket.create_connection((host, int(port)), timeout=WAIT_S)

    def half_open(self, opened: ExitStack, number: int, sent: bytes = HALF) -> list[socket.socket]:
        """That many connections whose request never ends."""
        connections = []
        for _ in range(number):
            one = opened.enter_context(self.connect())
            one.sendall(sent)
            connections.append(one)
        return connections

    def num_files(self) -> int:
        """File descriptors that the server has."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@contextmanager
def flooded(runs: Path, num_files: int, *arguments: str) -> Iterator[Flooded]:
    """Serve one small run with a token."""
    two_rank_run(runs / "job")
    given = ["serve", str(runs), "--port", "0", "--token", SECRET, *arguments]
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, str(num_files), *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = urlsplit(process.stdout.readline().strip())
        yield Flooded(f"127.0.0.1:{url.port}", process)
    finally:
        process.terminate()
        process.wait(WAIT_S)
        if process.stdout is not None:
            process.stdout.close()


def is_closed(connection: socket.socket, within_s: float) -> bool:
    """Whether the other side closes it in time; what it sends meanwhile is dropped."""
    deadline_s = time.monotonic() + within_s
    connection.settimeout(within_s)
    try:
        while time.monotonic() < deadline_s:
            if not connection.recv(65_536):
                return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return False
