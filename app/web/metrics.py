"""The server's own metrics as Prometheus text. One process, one set of numbers."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LABEL = "rankscope.route"
"""Key in the ASGI scope for a route's label; by default its endpoint decides."""


class Metrics:
    """Counters of a server; safe from many threads."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.requests: dict[tuple[str, int], int] = defaultdict(int)
        self.durations: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS_S) + 1))
        self.seconds: dict[str, float] = defaultdict(float)
        self.sockets = self.rank_sockets = 0
        self._lock = threading.Lock()

    def note(self, route: str, status: int, duration_s: float) -> None:
        """Count one request."""
        with self._lock:
            self.requests[route, status] += 1
            self.durations[route][bisect_left(BUCKETS_S, duration_s)] += 1
            self.seconds[route] += duration_s

    @contextmanager
    def open_socket(self) -> Iterator[None]:
        """Count a live socket while the block runs."""
        with self._lock:
            self.sockets += 1
        try:
            yield
        finally:
            with self._lock:
                self.sockets -= 1

    @contextmanager
    def open_rank_socket(self) -> Iterator[None]:
        """Count a socket of a rank, or of all ranks of a host, while the block runs."""
        with self._lock:
            self.rank_sockets += 1
        try:
            yield
        finally:
            with self._lock:
                self.rank_sockets -= 1

    @property
    def uptime_s(self) -> float:
        """Since the server began."""
        return time.monotonic() - self.began_s

    def lines(self) -> list[str]:
        """Requests and sockets as Prometheus text."""
        with self._lock:
            requests = sorted(self.requests.items())
            durations = sorted((route, list(counts)) for route, counts in self.durations.items())
            seconds = dict(self.seconds)
        text = _described("requests_total", "counter", "HTTP requests by route and status")
        text += [
            f'rankscope_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in requests
        ]
        text += _described("request_seconds", "histogram", "Time from request to the whole answer")
        for route, counts in durations:
            text += _histogram(route, counts, seconds[route])
        return [
            *text,
            *gauge("live_sockets", "Open live sockets", self.sockets),
            *gauge("rank_sockets", "Open sockets of hosts and ranks", self.rank_sockets),
        ]


METRICS = Metrics()


def _histogram(route: str, counts: list[int], sum_s: float) -> list[str]:
    name, below, lines = "rankscope_request_seconds", 0, []
    for limit, count in zip([*BUCKETS_S, "+Inf"], counts, strict=True):
        below += count
        lines.append(f'{name}_bucket{{route="{route}",le="{limit}"}} {below}')
    return [
        *lines,
        f'{name}_sum{{route="{route}"}} {sum_s:.6f}',
        f'{name}_count{{route="{route}"}} {below}',
    ]


def gauge(name: str, meaning: str, value: float, kind: str = "gauge") -> list[str]:
    """One number as Prometheus text."""
    return [*_described(name, kind, meaning), f"rankscope_{name} {value:g}"]


def _described(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP rankscope_{name} {meaning}", f"# TYPE rankscope_{name} {kind}"]


def resident_bytes() -> int:
    """Memory of this process; without /proc, its highest value so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


class Measured:
    """Counts every HTTP request under its route's template, so that there are few labels.

    `dash_paths`: first parts of the paths that Dash itself answers, such as _dash-layout.
    """

    def __init__(
        self, app: ASGIApp, templates: dict[object, str], dash_paths: frozenset[str]
    ) -> None:
        self.app = app
        self.templates = templates
        self.dash_paths = dash_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; record the status and the duration."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun_s = time.perf_counter()
        status = 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note_status)
        finally:
            METRICS.note(self._route(scope), status, time.perf_counter() - begun_s)

    def _route(self, scope: Scope) -> str:
        template = self.templates.get(scope.get("endpoint"), "refused")
        if template != "pages":
            return template
        first = scope["path"].strip("/").split("/")[0]
        return first if first in self.dash_paths else "pages"
