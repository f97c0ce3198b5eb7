"""Clients of servers: sessions, free SQL in either form, visitors; and their memory."""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

import numpy as np
from browser import Server, calling, children, rss_mb, rss_mb_or_0

OWNER = "the-token-of-the-operator"
"""Token of the users whose requests are measured."""
VIEWERS = tuple(f"the-token-of-viewer-{number}" for number in range(8))
"""Tokens of eight users; the first alone, or all of them, attack."""
TOKENS = [
    *("--token", f"operator={OWNER}"),
    *(given for secret in VIEWERS for given in ("--token", f"viewer={secret}")),
]
RUNS = ("recorded", "generated")
OWN_HEADER = {"X-Rankscope": "1"}
OTHER_FORM = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
LATEST_S = 30.0
"""A request that waits for this long counts as not answered."""
PAUSE_S = 0.05
_SAMPLE_S = 0.05


@dataclass(frozen=True)
class Answer:
    """Status 0: none came within the time limit, or the connection broke."""

    status: int
    body: bytes
    ms: float


class Session:
    """One client with a token: a connection that is kept, and opened again after errors."""

    def __init__(self, port: int, secret: str = "", limit_s: float = LATEST_S) -> None:
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=limit_s)

    def ask(self, path: str, method: str = "GET", body: str | None = None, **more: str) -> Answer:
        """One request, answered or given up at the time limit."""
        begun_s = time.perf_counter()
        try:
            self._connection.request(method, path, body, {**self._headers, **more})
            response = self._connection.getresponse()
            status, content = response.status, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            status, content = 0, b""
        return Answer(status, content, (time.perf_counter() - begun_s) * 1e3)

    def select(self, run: str, text: str, is_post: bool) -> Answer:
        """Free SQL: POST as JSON with the page's own header, or GET as servers took it before."""
        path = f"/api/run/{run}/query"
        if is_post:
            as_json = {"Content-Type": "application/json", **OWN_HEADER}
            return self.ask(path, "POST", json.dumps({"sql": text}), **as_json)
        return self.ask(f"{path}?sql={quote(text)}")

    def close(self) -> None:
        """Close the connection, whatever is under way."""
        self._connection.close()


def takes_post(port: int, run: str) -> bool:
    """Whether a server takes free SQL as POST; nothing is computed for it."""
    session = Session(port, OWNER)
    answer = session.select(run, "", is_post=True)
    session.close()
    return answer.status not in OTHER_FORM


class Visitors:
    """Users who view runs: each requests one path after the other, with a short pause."""

    def __init__(
        self, port: int, paths: Sequence[str], num: int = 2, pause_s: float = 0.05
    ) -> None:
        self.port = port
        self.paths = paths
        self.answers: list[Answer] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(n,)) for n in range(num)]

    def _visit(self, number: int) -> None:
        session, turn = Session(self.port, OWNER), number * len(self.paths) // 2
        while not self._ended.wait(PAUSE_S):
            self.answers.append(session.ask(self.paths[turn % len(self.paths)]))
            turn += 1
        session.close()

    def __enter__(self) -> Visitors:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    @property
    def p50_ms(self) -> float:
        """Median of all requests; one without an answer counts with the time waited for it."""
        return percentile([answer.ms for answer in self.answers], 50)

    @property
    def p95_ms(self) -> float:
        """As p50_ms."""
        return percentile([answer.ms for answer in self.answers], 95)

    @property
    def num_failed(self) -> int:
        """Requests without an answer, or with a status from 400 on."""
        return sum(answer.status == 0 or answer.status >= 400 for answer in self.answers)


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile; nan of nothing."""
    return round(float(np.percentile(values, percent)), 1) if values else math.nan


@dataclass
class Memory:
    """Greatest resident memory in MB: of the server, of its child processes together, of all.

    Beyond `most_gb` in all it kills the server, as the kernel of a smaller machine would.
    """

    server: Server
    most_gb: float
    server_mb: float = 0.0
    children_mb: float = 0.0
    together_mb: float = 0.0
    num_killed: int = 0

    def sample(self) -> None:
        """Take the present sizes in."""
        pid = self.server.pid
        server_mb, children_mb = rss_mb_or_0(pid), children_rss_mb(pid)
        self.server_mb = max(self.server_mb, server_mb)
        self.children_mb = max(self.children_mb, children_mb)
        self.together_mb = max(self.together_mb, server_mb + children_mb)
        if server_mb + children_mb > 1024 * self.most_gb:
            self.num_killed += 1
            self.server.kill()


@contextmanager
def sampled_memory(server: Server, most_gb: float) -> Iterator[Memory]:
    """Memory of a server and its children while the block runs."""
    memory = Memory(server, most_gb)
    with calling(memory.sample, _SAMPLE_S):
        yield memory


def children_rss_mb(pid: int) -> float:
    """Resident memory of all processes below one, pages they share counted in each."""
    return sum(map(rss_mb_or_0, children(pid)))


def has_ended(server: Server) -> bool:
    """Whether its process is gone, or is about to be."""
    return (
        server.process is None or server.process.poll() is not None or not rss_mb_or_0(server.pid)
    )


def server_rss_mb(server: Server) -> float:
    """Resident memory of a server; nan where it has ended."""
    with suppress(OSError, StopIteration):
        return rss_mb(server.pid)
    return math.nan


def health(port: int, limit_s: float = LATEST_S) -> tuple[str, float]:
    """Answer of /healthz on a new connection without a token, and its time in ms."""
    session = Session(port, limit_s=limit_s)
    answer = session.ask("/healthz")
    session.close()
    if not answer.status:
        return "no answer", answer.ms
    with suppress(ValueError, AttributeError):
        return str(json.loads(answer.body).get("status", answer.status)), answer.ms
    return str(answer.status), answer.ms


def until(holds: Callable[[], bool], limit_s: float, every_s: float = 0.25) -> float | None:
    """Seconds until something holds; None where it does not within the limit."""
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < limit_s:
        if holds():
            return round(time.monotonic() - begun_s, 2)
        time.sleep(every_s)
    return None


def counted(counts: Counter[str]) -> str:
    """Counts in one line, most frequent first."""
    return ", ".join(f"{number} x {name}" for name, number in counts.most_common()) or "none"
