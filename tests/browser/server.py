"""The real server in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_S, END_S = 60.0, 20.0


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


class Server:
    """`rankscope serve` for a folder of runs; can be killed and started again on its port."""

    def __init__(self, runs: Path, *options: str, port: int | None = None) -> None:
        self.runs = runs
        self.port = port or free_port()
        self.options = options
        self.log = runs.parent / f"server-{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        """Start it and wait until it answers; raises RuntimeError with its output."""
        command = [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())"]
        command += ["serve", str(self.runs), "--port", str(self.port), *self.options]
        clean = {
            k: v for k, v in os.environ.items() if not k.startswith(("TRACE_HOOKS", "RANKSCOPE"))
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean,
                cwd=Path(__file__).resolve().parents[2],
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not come up:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        """End it at once, as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ctrl-C; returns its exit code, killing it where it does not end."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
