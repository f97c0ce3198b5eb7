"""Many browsers on one live run: is everything answered, in time, without growing memory?

python benchmarks/soak.py [--minutes 5] [--clients 20] [--json]

A recorded run is written again at its original pace (benchmarks/replay.py) and served. A real
Chromium opens every page once, and the benchmark records its requests: when it loads, and when new
data arrives. The clients then do the same over HTTP and the live socket: load a page (scripts only
once, as browsers cache them), open the socket, repeat the page's requests when new data arrives,
and sometimes change to another page or rank. Windows of time move on with the run. At the same time
Chromium itself goes from page to page. Failures: any status from 400, any broken connection, any
error on the console.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import websockets
from browser import (
    FLAGS,
    MISSING,
    REPO,
    Server,
    chromium,
    conditions,
    cpu_s,
    report,
    rss_mb,
    spread,
)
from playwright.async_api import Browser, Page, Request, Response, async_playwright

RECORDED = REPO / "sample_traces" / "recorded" / "slow_rank"
RUN = "live"
PAGES = ("overview", "timeline", "ranks", "query")
WATCH_S = 8.0
"""How long Chromium stays on each page to record its requests for new data."""
STAY_S = (8.0, 25.0)
NEWS_EVERY_S = 0.25
"""A page is notified of new data at most this often (assets/lib/live.mjs)."""
RANKS = 8
WARM_UP_S = 60.0
KEPT = "/_dash-component-suites/"
"""Scripts with a version in their address, which browsers request once."""
FOUND = "found.data"
"""A page's store with the content of banner and drawer: the server redraws them only if it
changes."""
COUNT = "findings-count.children"
"""Requested when they change."""
_ABORTED = "net::ERR_ABORTED"


@dataclass(frozen=True)
class Ask:
    """One request of a page."""

    method: str
    path: str
    body: str | None
    at_ns: int
    every_s: float = 0.0
    """how often Chromium requested it while new data arrived"""

    def moved(self, rank: int, now_ns: int) -> tuple[str, str | None]:
        """Path and body for another rank and for now: windows of time go on with the run."""
        later_ns = now_ns - self.at_ns
        path = re.sub(
            r"([?&](?:from|to)=)(\d+)", lambda m: f"{m[1]}{int(m[2]) + later_ns}", self.path
        )
        return re.sub(r"([?&]rank=)\d+", rf"\g<1>{rank}", path), self.body

    @cached_property
    def output(self) -> str:
        """Of a callback of Dash: which elements it draws."""
        return str(json.loads(self.body).get("output")) if (self.body or "")[:1] == "{" else ""

    @property
    def name(self) -> str:
        """Route, without the run's name and parameters."""
        path = urlsplit(self.path).path
        return re.sub(rf"^/(api/)?run/{RUN}/?", r"\1", path) or path


@dataclass
class Recipe:
    """A page's requests when it is opened, and when new data arrives."""

    load: list[Ask] = field(default_factory=list)
    news: list[Ask] = field(default_factory=list)


@dataclass
class Counts:
    """The results of all requests."""

    begun_s: float = 0.0
    """when the clients came, of time.perf_counter()"""
    times_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    warm_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Those of requests sent after WARM_UP_S: at first all clients come in the same instant."""
    failures: list[str] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    rss: list[tuple[float, float]] = field(default_factory=list)
    server_cores: float = 0.0

    def took(self, name: str, begun_s: float) -> None:
        """Note how long a request took that was sent then."""
        took_ms = (time.perf_counter() - begun_s) * 1e3
        self.times_ms[name].append(took_ms)
        if begun_s - self.begun_s >= WARM_UP_S:
            self.warm_ms[name].append(took_ms)

    def slope_mb_per_min(self, from_s: float) -> float | None:
        """Growth of the server's memory from then on, by least squares."""
        later = [(s, mb) for s, mb in self.rss if s >= from_s]
        if len(later) < 10:
            return None
        seconds, mb = np.array(later).T
        return round(float(np.polyfit(seconds / 60, mb, 1)[0]), 2)

    def rss_means(self, every_s: float) -> str:
        """Mean memory of each `every_s` seconds, MB."""
        parts: dict[int, list[float]] = defaultdict(list)
        for s, mb in self.rss:
            parts[int(s // every_s)].append(mb)
        return " ".join(f"{np.mean(parts[part]):.0f}" for part in sorted(parts))


async def note_recipes(browser: Browser, url: str) -> dict[str, Recipe]:
    """Open every page in Chromium and record its requests."""
    by_name = {}
    for name in PAGES:
        page, recipe = await browser.new_page(), Recipe()
        requests: list[Ask] = []

        def note(request: Request, requests: list[Ask] = requests) -> None:
            if request.url.startswith(url) and "/assets/" not in request.url:
                path = request.url.removeprefix(url)
                requests.append(Ask(request.method, path, request.post_data, time.time_ns()))

        page.on("request", note)
        await page.goto(f"{url}/run/{RUN}/{name}")
        await page.wait_for_selector("#page:not(.loading)")
        await page.wait_for_timeout(1000)
        recipe.load, first = list(requests), len(requests)
        await page.wait_for_timeout(WATCH_S * 1000)
        recipe.news = newest_of_each(requests[first:])
        by_name[name] = recipe
        await page.close()
    return by_name


def newest_of_each(requests: Iterable[Ask]) -> list[Ask]:
    """The last request of each route (Dash's callbacks: of each output), and how often it came."""
    by_route: dict[tuple[str, str], list[Ask]] = defaultdict(list)
    for ask in requests:
        by_route[ask.name, ask.output].append(ask)
    return [replace(asks[-1], every_s=WATCH_S / len(asks)) for asks in by_route.values()]


class Client:
    """One browser without a screen."""

    def __init__(self, url: str, recipes: dict[str, Recipe], counts: Counts, seed: int) -> None:
        self.url = url
        self.recipes = recipes
        self.counts = counts
        self.random = random.Random(seed)
        self.rank = 0
        self.kept: set[str] = set()
        self.found: object = None
        self.http = httpx.AsyncClient(
            base_url=url,
            timeout=30,
            limits=httpx.Limits(max_connections=6),
            headers={"Accept-Encoding": "gzip"},
        )

    async def live(self, until_s: float) -> None:
        """Go from page to page until the time is over."""
        async with self.http:
            while time.monotonic() < until_s:
                self.rank = self.random.randrange(RANKS)
                page = self.random.choice(PAGES)
                stay_s = min(self.random.uniform(*STAY_S), until_s - time.monotonic())
                self.counts.numbers["pages opened"] += 1
                load = self.recipes[page].load
                await self.ask_all([ask for ask in load if ask.path not in self.kept])
                self.kept |= {ask.path for ask in load if KEPT in ask.path}
                try:
                    async with asyncio.timeout(max(stay_s, 0.1)):
                        await self.follow(self.recipes[page].news)
                except TimeoutError:
                    continue

    async def follow(self, asks: list[Ask]) -> None:
        """Listen to the live socket; repeat all requests when new data arrives, as often as
        Chromium.
        """
        address = f"{self.url.replace('http', 'ws')}/api/live?run={RUN}"
        version, shown_state, requested_s = None, None, dict.fromkeys(asks, time.monotonic())
        try:
            async with websockets.connect(address, origin=self.url) as socket:
                self.counts.numbers["sockets opened"] += 1
                async for message in socket:
                    self.counts.numbers["messages"] += 1
                    answer = json.loads(message)
                    if answer["version"] != version:
                        version = answer["version"]
                        self.counts.numbers["news"] += 1
                        now_s, found = time.monotonic(), self.found
                        is_changed = (answer["progress"], answer["state"]) != shown_state
                        shown_state = answer["progress"], answer["state"]
                        due = [
                            ask
                            for ask in asks
                            if now_s - requested_s[ask] >= ask.every_s
                            and (is_changed or not ask.output)
                            and ask.output != COUNT
                        ]
                        requested_s |= dict.fromkeys(due, now_s)
                        await self.ask_all(due)
                        if self.found != found:
                            await self.ask_all([ask for ask in asks if ask.output == COUNT])
                        await asyncio.sleep(NEWS_EVERY_S)
                self.counts.failures.append("the live socket ended")
        except (OSError, websockets.WebSocketException) as error:
            self.counts.failures.append(f"live socket: {type(error).__name__}: {error}")

    async def ask_all(self, asks: list[Ask]) -> None:
        """Requests of a page, at once as a browser makes them (six connections)."""
        await asyncio.gather(*(self.ask(ask) for ask in asks))

    async def ask(self, ask: Ask) -> None:
        """One request, counted."""
        path, body = ask.moved(self.rank, time.time_ns())
        body = body and self.with_found(body)
        headers = {"Content-Type": "application/json"} if body else {}
        begun = time.perf_counter()
        try:
            answer = await self.http.request(ask.method, path, content=body, headers=headers)
        except httpx.HTTPError as error:
            self.counts.failures.append(f"{path}: {type(error).__name__}: {error}")
            return
        self.counts.took(ask.name, begun)
        self.counts.numbers["requests"] += 1
        if FOUND in ask.output and answer.status_code == HTTPStatus.OK:
            self.found = answer.json()["response"]["found"]["data"]
        if answer.status_code >= 400:
            self.counts.failures.append(f"{answer.status_code} {path}: {answer.text[:200]}")

    def with_found(self, body: str) -> str:
        """The body of a callback's request with what banner and drawer say here at present."""
        if f'"{FOUND.partition(".")[0]}"' not in body:
            return body
        answer = json.loads(body)
        for given in (*answer.get("inputs", []), *answer.get("state", [])):
            if given.get("id") == "found":
                given["value"] = self.found
        return json.dumps(answer)


async def wander(browser: Browser, url: str, counts: Counts, until_s: float) -> None:
    """The real browser: from tab to tab of one page that stays open."""
    page = await browser.new_page(viewport={"width": 1400, "height": 900})
    watch(page, counts)
    await page.goto(f"{url}/run/{RUN}/timeline")
    turn = 0
    while time.monotonic() < until_s:
        await page.wait_for_timeout(min(10.0, max(until_s - time.monotonic(), 0.1)) * 1000)
        turn += 1
        await page.click(f'.topbar a[data-page="{PAGES[turn % len(PAGES)]}"]')
        counts.numbers["pages of Chromium"] += 1
    await page.close()


def watch(page: Page, counts: Counts) -> None:
    """Count everything that fails in a tab."""

    def answered(response: Response) -> None:
        counts.numbers["requests of Chromium"] += 1
        if response.status >= 400:
            counts.failures.append(f"Chromium: {response.status} {response.url}")

    def failed(request: Request) -> None:
        if request.failure != _ABORTED:
            counts.failures.append(f"Chromium: {request.failure} {request.url}")

    page.on("response", answered)
    page.on("requestfailed", failed)
    page.on("pageerror", lambda error: counts.failures.append(f"Chromium: {error}"))
    page.on(
        "console",
        lambda m: counts.failures.append(f"Chromium: {m.text}") if m.type == "error" else None,
    )


async def note_memory(pid: int, counts: Counts, until_s: float) -> None:
    """The server's resident memory, each second, and the CPU time it takes."""
    begun_s, used_s = time.monotonic(), cpu_s(pid)
    while time.monotonic() < until_s:
        counts.rss.append((time.monotonic() - begun_s, rss_mb(pid)))
        await asyncio.sleep(1)
    counts.server_cores = (cpu_s(pid) - used_s) / (time.monotonic() - begun_s)


async def soak(server: Server, path: str, options: argparse.Namespace) -> Counts:
    """Clients and Chromium on a server that runs."""
    counts = Counts()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        recipes = await note_recipes(browser, server.url)
        counts.begun_s = time.perf_counter()
        until_s = time.monotonic() + options.minutes * 60
        clients = [Client(server.url, recipes, counts, seed) for seed in range(options.clients)]
        await asyncio.gather(
            *(client.live(until_s) for client in clients),
            wander(browser, server.url, counts, until_s),
            note_memory(server.pid, counts, until_s),
        )
        await browser.close()
    return counts


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Start job and server, run the browsers, sum up."""
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) / "runs"
        runs.mkdir()
        replay = [sys.executable, str(REPO / "benchmarks" / "replay.py"), str(RECORDED)]
        steps = Path(scratch) / "steps"
        with steps.open("wb") as output:
            job = subprocess.Popen([*replay, str(runs / RUN), "--minutes", "600"], stdout=output)
        server = Server(runs)
        try:
            while not steps.stat().st_size:  # the first step is there
                time.sleep(0.1)
            server.start()
            counts = asyncio.run(soak(server, path, options))
        finally:
            job.kill()
            job.wait()
            code = server.stop()
    return result(counts, options) | {"exit code of the server": code}


def result(counts: Counts, options: argparse.Namespace) -> dict[str, Any]:
    """Numbers worth telling."""
    rss = [mb for _, mb in counts.rss]
    routes = sorted(counts.times_ms.items(), key=lambda item: -len(item[1]))
    return {
        "conditions": conditions(
            ranks=RANKS, minutes=options.minutes, clients=options.clients, recording=RECORDED.name
        ),
        "counts": dict(counts.numbers),
        "cores the server used": round(counts.server_cores, 2),
        "failed requests": len(counts.failures),
        "failures": dict(Counter(counts.failures).most_common(20)),
        "memory of the server": {
            "first MB": round(rss[0]),
            "last MB": round(rss[-1]),
            "most MB": round(max(rss)),
            "MB/min after the first minute": counts.slope_mb_per_min(WARM_UP_S),
            "MB/min in the second half": counts.slope_mb_per_min(options.minutes * 30),
            "mean MB of each half minute": counts.rss_means(30.0),
        },
        "routes": {name: spread(times) for name, times in routes},
        "routes after the first minute": {name: spread(counts.warm_ms[name]) for name, _ in routes},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="(%(default)s)")
    parser.add_argument("--clients", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measured(options)
    report(found, options.json)
    sys.exit(1 if found["failed requests"] else 0)


if __name__ == "__main__":
    main()
