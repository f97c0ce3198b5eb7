"""Connections that are opened and never used, and guessed tokens."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from browser import Server

from abuse_parts.server import OWNER, Session, counted, health, percentile

TRICKLE_S = 1.0
"""How often a half-open request sends one more line, as slow clients do."""
WATCH_S = 30.0
"""How long requests are sent to the server while they are open."""
ASK_EVERY_S, ASK_LIMIT_S = 0.5, 5.0
GUESSES_AT_ONCE, FLOOD_S = 8, 10.0
ORDINARY_PATH = "/api/runs"
OK = "200"

Row = dict[str, float | str]


def half_open_request(_number: int) -> bytes:
    """A request whose headers never end."""
    return b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def half_open_handshake(_number: int) -> bytes:
    """A WebSocket handshake whose headers never end."""
    return _handshake("/api/live")


def silent_rank(_number: int) -> bytes:
    """A whole handshake of a rank with a guessed token, after which nothing is sent."""
    return _handshake("/agent") + b"Authorization: Bearer no-such-token-here\r\n\r\n"


def _handshake(path: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
    ).encode()


KINDS: dict[str, tuple[Callable[[int], bytes], bool]] = {
    "half-open requests": (half_open_request, True),
    "half-open handshakes": (half_open_handshake, True),
    "ranks that say nothing": (silent_rank, False),
}
"""What is sent at first, and whether a line more comes every TRICKLE_S."""


@contextmanager
def held_open(port: int, first: Callable[[int], bytes], num: int) -> Iterator[list[socket.socket]]:
    """This many connections that have sent their first bytes; closed afterwards."""
    opened: list[socket.socket] = []
    try:
        for number in range(num):
            with suppress(OSError):
                one = socket.create_connection(("127.0.0.1", port), timeout=1.0)
                opened.append(one)
                one.sendall(first(number))
                one.setblocking(False)
        yield opened
    finally:
        for one in opened:
            one.close()


def trickle(opened: Sequence[socket.socket]) -> None:
    """One more line on each that the server has not closed."""
    for one in opened:
        with suppress(OSError):
            one.sendall(b"X-Slow: 1\r\n")


def num_closed(opened: Sequence[socket.socket]) -> int:
    """How many the server has closed or answered."""
    return sum(map(_is_closed, opened))


def _is_closed(one: socket.socket) -> bool:
    try:
        one.setblocking(False)
        while content := one.recv(1 << 16):
            if b"101 Switching" not in content:  # a handshake that went well is not the end
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def crowded(server: Server, kind: str, num: int) -> Row:
    """Answers of /healthz and of a request with a token while connections of a kind are open."""
    first, goes_on = KINDS[kind]
    answers_by_request = {"/healthz": _Repeated(), "with a token": _Repeated()}
    with held_open(server.port, first, num) as opened:
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < WATCH_S:
            if goes_on:
                trickle(opened)
            answers_by_request["/healthz"].take(*_healthz(server.port), begun_s)
            answers_by_request["with a token"].take(*_ordinary(server.port), begun_s)
            time.sleep(ASK_EVERY_S)
        closed = num_closed(opened)
    row: Row = {"opened": len(opened), f"closed by the server after {WATCH_S:.0f} s": closed}
    for name, answers in answers_by_request.items():
        row |= {f"{name}: {what}": value for what, value in answers.row().items()}
    return row | {"answers again s after they are closed": _again_s(server)}


@dataclass
class _Repeated:
    """Answers to the same request, sent repeatedly."""

    times_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    first_s: float | None = None

    def take(self, status: str, ms: float, begun_s: float) -> None:
        """One answer."""
        if status != OK:
            self.failures[status] += 1
            return
        self.times_ms.append(ms)
        if self.first_s is None:
            self.first_s = round(time.monotonic() - begun_s, 2)

    def row(self) -> Row:
        """Lines of the table."""
        return {
            "first answer after s": "none" if self.first_s is None else self.first_s,
            "answers": len(self.times_ms),
            "p95 ms": percentile(self.times_ms, 95),
            "refused or not answered": counted(self.failures),
        }


def _healthz(port: int) -> tuple[str, float]:
    status, ms = health(port, ASK_LIMIT_S)
    return (OK if status in ("ok", "degraded") else status), ms


def _ordinary(port: int) -> tuple[str, float]:
    session = Session(port, OWNER, ASK_LIMIT_S)
    answer = session.ask(ORDINARY_PATH)
    session.close()
    return str(answer.status or "no answer"), answer.ms


def _again_s(server: Server) -> float | str:
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < WATCH_S:
        if _healthz(server.port)[0] == OK:
            return round(time.monotonic() - begun_s, 2)
    return "none"


def guessed(server: Server) -> Row:
    """Wrong tokens as fast as possible, and a client with a valid one meanwhile."""
    quiet_ms = _valid_token_ms(server, 3.0)[0]
    statuses: Counter[str] = Counter()
    ended = threading.Event()

    def guess(number: int) -> None:
        turn = 0
        while not ended.is_set():
            session = Session(server.port, f"guess-{number}-{turn:012d}", ASK_LIMIT_S)
            statuses[str(session.ask(ORDINARY_PATH).status or "no answer")] += 1
            session.close()
            turn += 1

    threads = [threading.Thread(target=guess, args=(n,)) for n in range(GUESSES_AT_ONCE)]
    for thread in threads:
        thread.start()
    times_ms, failures = _valid_token_ms(server, FLOOD_S)
    ended.set()
    for thread in threads:
        thread.join()
    return {
        "answers to wrong tokens": counted(statuses),
        "wrong tokens a second": round(statuses.total() / FLOOD_S),
        "valid token, quiet: p95 ms": percentile(quiet_ms, 95),
        "valid token, meanwhile: p95 ms": percentile(times_ms, 95),
        "valid token: refused or not answered": counted(failures),
    }


def _valid_token_ms(server: Server, seconds: float) -> tuple[list[float], Counter[str]]:
    """Times of answers to the valid token, each on a new connection; what else came."""
    answers, until_s = _Repeated(), time.monotonic() + seconds
    while time.monotonic() < until_s:
        answers.take(*_ordinary(server.port), 0.0)
        time.sleep(0.05)
    return answers.times_ms, answers.failures
