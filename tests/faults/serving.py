"""`rankscope serve` in a process of its own, whose memory, descriptors and children are counted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.app.server.served import WAIT_S, ask

ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))
LONG_ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
"""Of those that take ten seconds and more."""
OWN = {"X-Rankscope": "1", "Content-Type": "application/json"}
_COMMAND = [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())"]
_URL = re.compile(r"^http://(127\.0\.0\.1:\d+)/", re.M)


class Server:
    """A server on a free port; what it prints goes to a file."""

    def __init__(self, runs: Path, scratch: Path, *options: str, **environ: str) -> None:
        self.log = scratch / "server.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*_COMMAND, "serve", str(runs), "--port", "0", *options],
                stdout=log,
                stderr=log,
                env={**os.environ, **environ},
            )
        self.address = self._address()

    def _address(self) -> str:
        until_s = time.monotonic() + WAIT_S
        while (found := _URL.search(self.log.read_text())) is None:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until_s, "the server did not come up"
            time.sleep(0.05)
        return found[1]

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Status and body."""
        return ask(self.address, path, method, body, **headers)

    def json(self, path: str) -> Any:
        """What a path answers; fails where that is no success."""
        status, body = self.ask(path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def select(self, run: str, text: str) -> tuple[int, dict[str, Any]]:
        """Free SQL of the query page."""
        body = json.dumps({"sql": text}).encode()
        status, answer = self.ask(f"/api/run/{run}/query", "POST", body, **OWN)
        return status, json.loads(answer)

    def resident_bytes(self) -> int:
        """Memory of the process itself."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]) * 4096

    def num_descriptors(self) -> int:
        """Open files and sockets."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def children(self, part: str) -> list[int]:
        """Processes below it whose command line holds `part`."""
        return [pid for pid in _below(self.process.pid) if part in _command_line(pid)]

    def stop(self) -> None:
        """Ctrl-C; it ends by itself."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(WAIT_S) == 0, self.log.read_text()


def _below(pid: int) -> list[int]:
    pids: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            own = [int(child) for child in path.read_text().split()]
            pids += own + [each for child in own for each in _below(child)]
    return pids


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@contextmanager
def serving(runs: Path, scratch: Path, *options: str, **environ: str) -> Iterator[Server]:
    """A server while the block runs, which prints no traceback meanwhile."""
    server = Server(runs, scratch, *options, **environ)
    try:
        yield server
        server.stop()
        assert "Traceback" not in server.log.read_text(), server.log.read_text()
    finally:
        server.process.kill()
        server.process.wait()
