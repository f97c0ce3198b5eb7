"""Pages of the run of scale.py in Chromium, and the memory of the server behind them."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.browser import FLAGS, Server, calling, children, chromium, rss_mb_or_0
from benchmarks.first_paint import MAIN, Loads, answers, load_often
from benchmarks.scale_parts.runs import evict

PAGES = [page for page in MAIN if page != "runs"]
ASKS, SAMPLE_S = 20, 0.2


def measured(runs: Path, name: str, num_loads: int) -> dict[str, Any]:
    """The first picture of the overview after a cold start, then all pages, their requests and a
    shared file; the greatest memory of the server. Empty without Chromium.
    """
    path = chromium()
    if path is None:
        return {}
    evict(runs)
    server = Server(runs).start()
    peak_mb = [0.0]

    def sample() -> None:
        pids = [server.pid, *children(server.pid)]
        peak_mb[0] = max(peak_mb[0], sum(rss_mb_or_0(pid) for pid in pids))

    with sync_playwright() as playwright, calling(sample, SAMPLE_S):
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            loads = Loads(browser, server)
            context = loads.context()
            first = loads.load(context, f"/run/{name}/overview", MAIN["overview"])
            context.close()
            pages = {page: load_often(loads, page, name, num_loads) for page in PAGES}
            routes = answers(loads.addresses, ASKS)
            shared_s = [_share_s(server, name) for _ in range(2)]
        finally:
            browser.close()
            server.stop()
    return {
        "first_picture_ms": first["grid"],
        "pages": {page: times[f"{MAIN[page] or 'text'}, cold"] for page, times in pages.items()},
        "routes": routes,
        "share_first_s": shared_s[0],
        "share_again_s": shared_s[1],
        "server_mb": peak_mb[0],
    }


def _share_s(server: Server, name: str) -> float:
    began_s = time.perf_counter()
    url = f"{server.url}/api/run/{name}/share?page=overview"
    with urllib.request.urlopen(url, timeout=120) as answer:
        answer.read()
    return time.perf_counter() - began_s
