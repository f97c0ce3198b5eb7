"""Jobs and servers in processes of their own: either may die, and a slow browser harms nobody."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from app.serving import take_port
from app.settings import Settings
from tests.app.live.test_frame_cache import next_frame, next_state
from tests.app.server.ranks import JOB_TOKEN
from tests.app.server.served import WAIT_S, ask
from tests.trace_hooks.processes import begin, rows
from tests.waiting import wait_until

W1 = {"id": "w1", "what": "mlp", "layers": [0]}
NUM_BROWSERS = 20
MIB = 1 << 20

TRAIN = """
import sys, time
import numpy as np
import trace_hooks as th
from trace_hooks.agent import connection
from trace_hooks.protocol.frames import Frame, stored
from trace_hooks.protocol.watches import watches_of

connection.LONGEST_PAUSE_S = 0.5  # between tries to reach a server that is away
tracer = th.start(run="job")
live, wanted, size = tracer.context.live, [], int(sys.argv[1])

def watch(value):
    wanted[:] = watches_of(value)
    return f"{len(wanted)} watches"

live.commands.register("watch", watch)
live.about["watches"] = lambda: [one.to_json() for one in wanted]
while True:
    with tracer.step():
        time.sleep(0.05)
        kept = stored(np.zeros(size // 2, np.float32))
        for one in list(wanted):
            live.on_frame(Frame(
                step=tracer.context.rank_state.step, ts_ns=1, watch=one.id, what="mlp", layer=0,
                name="mlp", shape=(size // 2,), dtype=kept.dtype, data=kept.data,
            ))
"""


class Server:
    """`rankscope serve` in a process of its own."""

    def __init__(self, runs: Path, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        code = "import sys; from app.cli import main; sys.exit(main())"
        arguments = ["serve", str(runs), "--port", str(port), "--job-token", JOB_TOKEN]
        self._command = [sys.executable, "-c", code, *arguments]
        self.process = self._begun()

    def _begun(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.address in self.process.stdout.readline()

    def start_again(self) -> None:
        self.kill()
        self.process = self._begun()
        self.wait_ready()

    def state(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(ask(self.address, "/api/watch?run=job")[1])
        return answer

    def watch(self) -> dict[str, Any]:
        return self._post("/api/watch", {"watches": [W1]})

    def command(self, message: dict[str, Any]) -> dict[str, Any]:
        return self._post("/api/command", message)

    def _post(self, path: str, message: dict[str, Any]) -> dict[str, Any]:
        status, answer = ask(self.address, f"{path}?run=job", "POST", json.dumps(message).encode())
        assert status == 200, answer
        content: dict[str, Any] = json.loads(answer)
        return content

    def resident_bytes(self) -> int:
        text = Path(f"/proc/{self.process.pid}/statm").read_text("ascii")
        return int(text.split()[1]) * 4096

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def serving(runs: Path, port: int) -> Iterator[Server]:
    server = Server(runs, port)
    try:
        server.wait_ready()
        yield server
    finally:
        server.kill()


@contextmanager
def training(folder: Path, port: int, num_bytes: int = 1_000) -> Iterator[subprocess.Popen[str]]:
    process = begin(
        folder,
        TRAIN,
        str(num_bytes),
        TRACE_HOOKS_SERVER=f"ws://127.0.0.1:{port}",
        TRACE_HOOKS_TOKEN=JOB_TOKEN,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def port() -> int:
    listener = take_port(Settings(port=0))
    number: int = listener.getsockname()[1]
    listener.close()
    return number


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def connected(server: Server) -> bool:
    return bool(server.state().get("connected") == 1)


def test_a_job_goes_on_without_its_server_and_is_watched_by_the_next(
    tmp_path: Path, runs: Path, port: int
) -> None:
    address = f"ws://127.0.0.1:{port}/live/frames?run=job"
    with training(tmp_path, port) as job:
        with serving(runs, port) as server:
            wait_until(lambda: connected(server))
            assert server.watch()["acks"][0]["ok"]
            with connect(address) as browser:
                before = next_frame(browser).step
        assert job.poll() is None
        with serving(runs, port) as server:
            wait_until(lambda: connected(server))
            assert [one["id"] for one in server.state()["watches"]] == ["w1"]
            with connect(address) as browser:
                after = next_frame(browser).step
                assert after > before
                while next_frame(browser).step < after + 3:
                    pass
            assert job.poll() is None
            job.terminate()
            wait_until(lambda: server.state()["ended"] == 1)
    steps = sorted(row["step"] for row in rows(tmp_path, "steps"))  # in whatever order of files
    assert steps == list(range(len(steps)))
    assert len(steps) > after


def test_a_rank_that_is_killed_is_gone(tmp_path: Path, runs: Path, port: int) -> None:
    with serving(runs, port) as server, training(tmp_path, port) as job:
        wait_until(lambda: connected(server))
        job.kill()
        wait_until(lambda: server.state()["gone"] == 1)
        assert server.state()["connected"] == 0


@pytest.mark.long
def test_twenty_browsers_on_one_watch_one_of_them_very_slow(
    tmp_path: Path, runs: Path, port: int
) -> None:
    """Whoever takes nothing costs the others nothing, and the server no memory."""
    num_frames, size = 60, MIB
    path = f"ws://127.0.0.1:{port}/live/frames?run=job"
    sleepy = socket.socket()
    sleepy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before the window is announced
    seen: list[int] = []

    def browse() -> None:
        with connect(path, max_size=None, compression=None) as opened:
            while next_frame(opened).step < last:
                pass
            seen.append(last)

    with serving(runs, port) as server, training(tmp_path, port, size):
        wait_until(lambda: connected(server))
        sleepy.connect(("127.0.0.1", port))
        with connect(path, sock=sleepy, max_queue=1, max_size=None, compression=None) as slow:
            server.watch()
            first = next_frame(slow).step
            before, last = server.resident_bytes(), first + num_frames
            browsers = [threading.Thread(target=browse) for _ in range(NUM_BROWSERS - 1)]
            for one in browsers:
                one.start()
            for browser in browsers:
                browser.join(6 * WAIT_S)
            assert len(seen) == NUM_BROWSERS - 1
            grown = server.resident_bytes() - before
            assert grown < num_frames * size / 2  # what a queue for the slow one would hold
            steps = [first, next_frame(slow).step]
            while steps[-1] < last:
                steps.append(next_frame(slow).step)
            assert steps == sorted(steps)
            assert len(steps) < num_frames / 2
            while next_state(slow)["skipped"] < num_frames / 2:
                pass
