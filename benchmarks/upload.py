"""Cost of a big upload for the server: memory while it is received and imported, and MB/s.

python benchmarks/upload.py [--gb 2] [--breaks 5] [--mb-read 200] [--json]

Starts the real server and sends --gb of bytes that no reader recognises, in PATCHes of 16 MiB as
browsers do. It closes the connection in the middle of one of them --breaks times and continues from
the server's offset; the server refuses the files at the end. Then it sends a torch.profiler trace
of --mb-read, which the server imports and, in its own process, indexes for the list of runs.
Resident memory is read every 20 ms: `server` is that process, `readers` its child processes
together.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from browser import REPO, Server, calling, children, conditions, report, rss_mb, rss_mb_or_0

CHUNK_BYTES = 16 << 20
PIECE_BYTES = 1 << 18
LOOK_S = 0.02
TUS = {"Tus-Resumable": "1.0.0"}
STREAM = {**TUS, "Content-Type": "application/offset+octet-stream"}


class Broken(Exception):
    """The connection was closed on purpose."""


@dataclass
class Memory:
    """Peaks of resident memory in MB."""

    pid: int
    server_mb: float = 0.0
    readers_mb: float = 0.0

    def look(self) -> None:
        """Update the peaks with the current sizes."""
        self.server_mb = max(self.server_mb, rss_mb(self.pid))
        self.readers_mb = max(self.readers_mb, sum(map(rss_mb_or_0, children(self.pid))))


@contextmanager
def watched(pid: int) -> Iterator[Memory]:
    memory = Memory(pid)
    with calling(memory.look, LOOK_S):
        yield memory


class Sender:
    """A browser's side of one upload; `content(at, n)` is what it sends."""

    def __init__(
        self, port: int, name: str, num_bytes: int, content: Callable[[int, int], bytes]
    ) -> None:
        self.port = port
        self.num_bytes = num_bytes
        self.content = content
        listed = json.dumps({"files": [{"name": name, "size": num_bytes}]})
        self.url = "/api/uploads/" + self.ask("POST", "/api/uploads", listed)["id"]

    def ask(self, method: str, url: str, body: str | None = None) -> dict[str, Any]:
        """One whole request; ends the script if it is refused."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, url, body, TUS)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 400:
            raise SystemExit(f"{method} {url}: {answer.status} {text.decode()}")
        if method == "HEAD":
            return {"offset": int(answer.headers["Upload-Offset"])}
        content: dict[str, Any] = json.loads(text)
        return content

    def send(self, breaks: list[int]) -> float:
        """Send all, broken off once after each of these offsets; returns seconds."""
        begun_s = time.perf_counter()
        offset, connection = 0, None
        while offset < self.num_bytes:
            connection = connection or http.client.HTTPConnection("127.0.0.1", self.port)
            try:
                offset = self._patch(connection, offset, breaks)
            except Broken:
                connection.close()
                connection = None
                offset = self._offset_after_break()
        return time.perf_counter() - begun_s

    def _offset_after_break(self) -> int:
        while True:
            time.sleep(0.1)
            if not self.ask("GET", self.url)["is_sending"]:
                return int(self.ask("HEAD", self.url)["offset"])

    def _patch(self, connection: http.client.HTTPConnection, begin: int, breaks: list[int]) -> int:
        end = min(begin + CHUNK_BYTES, self.num_bytes)
        headers = {**STREAM, "Upload-Offset": str(begin), "Content-Length": str(end - begin)}
        connection.putrequest("PATCH", self.url)
        for key, value in headers.items():
            connection.putheader(key, value)
        connection.endheaders()
        for at in range(begin, end, PIECE_BYTES):
            if breaks and at >= breaks[0]:
                breaks.pop(0)
                raise Broken
            connection.send(self.content(at, min(PIECE_BYTES, end - at)))
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 204:
            raise SystemExit(f"PATCH at {begin}: {answer.status} {body.decode()}")
        return int(answer.headers["Upload-Offset"])

    def end(self) -> tuple[dict[str, Any], float]:
        """The result of the import, and how long it took."""
        begun_s = time.perf_counter()
        while True:
            status = self.ask("GET", self.url)
            if status["state"] in ("done", "failed"):
                return status, time.perf_counter() - begun_s
            time.sleep(0.1)

    def wait_for_index(self, run: str) -> None:
        """Request the list of runs, as its page does, until this one is indexed."""
        while True:
            rows = self.ask("GET", "/api/runs")["runs"]
            if any(row["name"] == run and row["state"] != "indexing" for row in rows):
                return
            time.sleep(0.5)


def measured(server: Server, sender: Sender, num_breaks: int) -> dict[str, Any]:
    """Memory and speed of one upload and what follows it."""
    part = sender.num_bytes // (num_breaks + 1)
    breaks = [part * (number + 1) + PIECE_BYTES for number in range(num_breaks)]
    before_mb = rss_mb(server.pid)
    with watched(server.pid) as memory:
        took_s = sender.send(breaks)
        sending_mb = memory.server_mb
        status, import_s = sender.end()
        import_mb = memory.server_mb
        if status["run"]:
            sender.wait_for_index(status["run"])
    return {
        "MB sent": round(sender.num_bytes / 1e6),
        "connections broken": num_breaks,
        "MB/s": round(sender.num_bytes / 1e6 / took_s, 1),
        "server MB before": round(before_mb, 1),
        "server MB peak, sending": round(sending_mb, 1),
        "server MB peak, with import": round(import_mb, 1),
        "server MB peak, with index": round(memory.server_mb, 1),
        "readers MB peak": round(memory.readers_mb, 1),
        "import s": round(import_s, 1),
        "ended": status["run"] or status["error"][:60],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--breaks", type=int, default=5)
    parser.add_argument("--mb-read", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result: dict[str, Any] = {"conditions": conditions()}
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) / "runs"
        runs.mkdir()
        server = Server(runs).start()
        try:
            noise = bytes(range(1, 256)) * (PIECE_BYTES // 255 + 1)
            unreadable = Sender(
                server.port, "noise.bin", int(options.gb * 1e9), lambda _, n: noise[:n]
            )
            result["receiving"] = measured(server, unreadable, options.breaks)
            trace = big_kineto(Path(scratch) / "trace.json", options.mb_read * 10**6)
            with trace.open("rb") as file:

                def content(at: int, num_bytes: int) -> bytes:
                    file.seek(at)
                    return file.read(num_bytes)

                readable = Sender(server.port, trace.name, trace.stat().st_size, content)
                result["and importing"] = measured(server, readable, options.breaks)
        finally:
            server.stop()
    report(result, options.json)


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(REPO))
    from tests.browser.support.runs_made import big_kineto

    main()
