"""Time from navigation to the first picture of a page's data, per page.

python benchmarks/first_paint.py [--ranks 8 --ranks 12288] [--loads 10] [--json]

A page is loaded `loads` times with an empty browser cache (cold) and as often with a filled one
(warm). Times count from the start of the navigation to the end of the frame in which the view of
the page was first drawn with data: its canvas if it has one, else its text. Then each of the pages'
requests for data is repeated `asks` times, one at a time, to its last byte. The server caches
answers until a run has new data, so the first time of each is reported separately.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from benchmarks.browser import FLAGS, MISSING, REPO, Server, chromium, conditions, report, spread
from ingest.run import open_run
from sample_traces.generate.faults import SyntheticFault
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate

RECORDED = REPO / "sample_traces" / "recorded" / "slow_rank"
PATHS = {"grid": "/ranks/grid", "heat": "/ranks/heat", "timeline": "/timeline", "strip": "/strip"}
"""view: how the path of its data ends."""
MAIN = {"overview": "grid", "timeline": "timeline", "ranks": "grid", "query": None, "runs": None}
"""page: its main view; None: text."""
LONGEST_MS = 30_000


def wait_for(page: Page, expression: str) -> None:
    """Wait until an expression is true; evaluated from outside, because the page forbids eval."""
    deadline = time.monotonic() + LONGEST_MS / 1e3
    while not page.evaluate(expression):
        if time.monotonic() > deadline:
            raise SystemExit(f"{page.url}: {expression} did not come true")
        page.wait_for_timeout(25)


def make_run(runs: Path, ranks: int) -> str:
    """A recorded run of 8 ranks, or a synthetic one with a slow rank; returns its name."""
    name = f"r{ranks}"
    if ranks == 8:
        shutil.copytree(RECORDED, runs / name, ignore=shutil.ignore_patterns("index"))
    else:
        slow = SyntheticFault("slow_worker", ranks // 3, 1.3, first_step=8)
        job = SyntheticJob(ranks, 16, 8, num_steps=20, level="steps", faults=(slow,))
        generate(job, runs / name)
    open_run(runs / name).close()  # indexed before anything is measured
    return name


class Loads:
    """Loads pages of one server and collects their times and requests."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.browser = browser
        self.server = server
        self.addresses: dict[str, str] = {}
        self._script = (
            (REPO / "benchmarks" / "first_paint.js")
            .read_text(encoding="utf-8")
            .replace("PATHS_OF_VIEWS", json.dumps(PATHS))
        )

    def context(self) -> BrowserContext:
        """A profile with an empty cache."""
        made = self.browser.new_context(viewport={"width": 1400, "height": 900})
        made.add_init_script(self._script)
        return made

    def load(self, context: BrowserContext, path: str, view: str | None) -> dict[str, float]:
        """Milliseconds from the navigation's start: `text`, and of each view its picture."""
        page = context.new_page()
        page.on("request", self._note)
        page.goto(self.server.url + path, wait_until="commit")
        page.wait_for_selector("#page:not(.loading)", timeout=LONGEST_MS)
        text_ms: float = page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
            "() => done(performance.now()))))"
        )
        if view is not None:
            wait_for(page, f"window.firstPaint?.drawn[{view!r}] > 0")
        drawn: dict[str, float | None] = page.evaluate("firstPaint.drawn")
        page.close()
        by_name = {name: ms for name, ms in drawn.items() if ms is not None and not math.isnan(ms)}
        return {"text": text_ms, **by_name}

    def _note(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if "/api/run/" in parts.path and request.method == "GET":
            name = parts.path.split("/api/run/")[1].partition("/")[2]
            self.addresses.setdefault(name, request.url)


def answers(addresses: dict[str, str], num_asks: int) -> dict[str, dict[str, float]]:
    """Route: spread of its answers' times over HTTP, one at a time, and their size."""
    by_name = {}
    for name, url in sorted(addresses.items()):
        times_ms, num_bytes = [], 0
        for _ in range(num_asks):
            begun = time.perf_counter()
            request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    num_bytes = len(answer.read())
            except urllib.error.HTTPError as error:
                raise SystemExit(f"{url} answers {error.code}: {error.read()!r}") from error
            times_ms.append((time.perf_counter() - begun) * 1e3)
        by_name[name] = spread(times_ms) | {"kB": round(num_bytes / 1e3, 1)}
    return by_name


def measured(ranks: int, options: argparse.Namespace) -> dict[str, Any]:
    """All pages of one run."""
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        runs = Path(scratch) / "runs"
        runs.mkdir()
        name = make_run(runs, ranks)
        server = Server(runs).start()
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            loads = Loads(browser, server)
            pages = {page: load_often(loads, page, name, options.loads) for page in MAIN}
            answer_times = answers(loads.addresses, options.asks)
        finally:
            browser.close()
            server.stop()
    first = {page: f"{times.pop('first'):.0f} ms" for page, times in pages.items()}
    return {
        "conditions": conditions(ranks=ranks, loads=options.loads),
        "first load of all, server just started": first,
        **{f"{page} page": times for page, times in pages.items()},
        "answers": answer_times,
    }


def load_often(loads: Loads, page: str, run: str, num_loads: int) -> dict[str, Any]:
    """Spreads of one page, cold and warm; `first`: the very first load."""
    path = "/" if page == "runs" else f"/run/{run}/{page}"
    view = MAIN[page]
    cold, warm = defaultdict(list), defaultdict(list)
    first_ms = 0.0
    for turn in range(num_loads + 1):
        context = loads.context()
        for times in (cold, warm):
            found = loads.load(context, path, view)
            first_ms = first_ms or found[view or "text"]
            for name, ms in found.items() if turn else ():
                times[name].append(ms)
        context.close()
    return {
        "first": first_ms,
        **{f"{name}, cold": spread(values) for name, values in cold.items()},
        **{f"{name}, warm": spread(values) for name, values in warm.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, action="append", help="8 and 12288")
    parser.add_argument("--loads", type=int, default=10, help="loads a page (%(default)s)")
    parser.add_argument("--asks", type=int, default=20, help="times a request (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a run")
    options = parser.parse_args()
    for ranks in options.ranks or [8, 12_288]:
        report(measured(ranks, options), options.json)


if __name__ == "__main__":
    main()
