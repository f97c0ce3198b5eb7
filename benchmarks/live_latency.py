"""From event to pixel: how long until what a running job did is drawn in a browser.

python benchmarks/live_latency.py [--steps 60] [--page timeline] [--json]

A recorded run of 8 ranks is written again at its pace (benchmarks/replay.py), the real server
serves it, Chromium shows its timeline, which follows. An event is the end of a step on its last
rank: the last thing that happens in it. It is drawn when the browser has put a picture on the
screen that holds this step, finished, on all lanes. Parts of the time:

    write     until the segments of all ranks lie in the run folder (ranks publish every 0.7 s)
    index     until the index with it is published
    push      until the browser is notified of it
    ask       until the page asks for it: it does so at most every so often
    fetch     until the answer with it has come
    draw      until the frame with it is on the screen

All clocks are this machine's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from browser import FLAGS, MISSING, REPO, Server, chromium, conditions, report, spread
from playwright.sync_api import Page, sync_playwright

RECORDED = REPO / "sample_traces" / "recorded" / "slow_rank"
PARTS = ("write", "index", "push", "ask", "fetch", "draw")
_LOOK_S = 0.005
_WARM_UP_STEPS = 3

# notes when the page is notified, and for each drawn tile the steps finished in all its lanes
WATCH = """() => {
    const app = window.rankscope;
    window.notified = [];
    window.drawn = [];
    app.addEventListener('run', (event) => notified.push([Date.now(), event.detail.version]));
    const arrays = app.arrays.bind(app);
    app.arrays = async (url, signal) => {
        const begun = Date.now();
        const answer = await arrays(url, signal);
        if (!new URL(url, location.href).pathname.endsWith('/timeline')) return answer;
        const answered = Date.now();
        const { step, step_end, step_finished } = answer.arrays;
        const length = answer.meta.to - answer.meta.from;
        const lanes = new Map();
        for (let i = 0; i < step.length; i++) {
            if (step_finished[i] && step_end[i] <= length) {
                lanes.set(step[i], (lanes.get(step[i]) ?? 0) + 1);
            }
        }
        const steps = [...lanes].filter(([, n]) => n === answer.meta.lanes.length).map(([s]) => s);
        // the view draws in the next frame; the one after it begins when that one has been shown
        requestAnimationFrame(() => requestAnimationFrame(() => {
            drawn.push([begun, answered, Date.now(), steps]);
        }));
        return answer;
    };
}"""


@dataclass
class Times:
    """What was seen, ms of Unix time."""

    happened: dict[int, float] = field(default_factory=dict)
    written: dict[int, float] = field(default_factory=dict)
    published: list[float] = field(default_factory=list)
    notified: list[float] = field(default_factory=list)
    drawn: list[tuple[float, float, float, list[int]]] = field(default_factory=list)

    def parts(self, step: int) -> dict[str, float] | None:
        """Parts of the time from the end of a step to its picture, ms; None where it was missed."""
        match = next((times for *times, steps in self.drawn if step in steps), None)
        if match is None or step not in self.written:
            return None
        requested, answered, drawn = match
        notified = _last(self.notified, requested)
        published = _last(self.published, notified)
        marks = [self.happened[step], self.written[step], published, notified, requested]
        marks += [answered, drawn]
        for at in range(1, len(marks)):  # a step may be seen before the slowest rank's next turn
            marks[at] = max(marks[at], marks[at - 1])
        return {name: marks[at + 1] - marks[at] for at, name in enumerate(PARTS)}


def _last(times: list[float], before: float) -> float:
    at = bisect_right(times, before)
    return times[at - 1] if at else before


def follow_job(job: subprocess.Popen[str], times: Times) -> None:
    """Read the lines of the replay until it ends."""
    assert job.stdout is not None
    for line in job.stdout:
        answer = json.loads(line)
        times.happened[answer["step"]] = answer["happened_ns"] / 1e6
        times.written[answer["step"]] = answer["written_ns"] / 1e6


def follow_index(folder: Path, times: Times, stop: threading.Event) -> None:
    """Note when each snapshot of the index was published."""
    while not stop.wait(_LOOK_S):
        for pointer in folder.glob("index/snapshot-*.json"):
            published = pointer.stat().st_mtime_ns / 1e6
            if not times.published or published > times.published[-1]:
                times.published.append(published)


def watch(page: Page, times: Times, num_steps: int) -> None:
    """Look at the page until this many steps are drawn."""
    deadline = time.monotonic() + 60 + 5 * num_steps
    while time.monotonic() < deadline:
        page.wait_for_timeout(1000)
        times.drawn = [tuple(entry) for entry in page.evaluate("drawn")]
        times.notified = [at_ms for at_ms, _ in page.evaluate("notified")]
        if len({step for *_, steps in times.drawn for step in steps}) > num_steps:
            return
    raise SystemExit(f"only {len(times.drawn)} pictures came; see the server's output")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run job, server and browser; returns spreads of the whole time and of its parts."""
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    times, stop = Times(), threading.Event()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        runs = Path(scratch) / "runs"
        runs.mkdir()
        replay = [sys.executable, str(REPO / "benchmarks" / "replay.py"), str(RECORDED)]
        job = subprocess.Popen(
            [*replay, str(runs / "live"), "--minutes", "60"], stdout=subprocess.PIPE, text=True
        )
        threads = [
            threading.Thread(target=follow_job, args=(job, times)),
            threading.Thread(target=follow_index, args=(runs / "live", times, stop)),
        ]
        server = Server(runs)
        try:
            for thread in threads:
                thread.start()
            while _WARM_UP_STEPS not in times.written:
                time.sleep(0.1)
            server.start()
            browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(f"{server.url}/run/live/{options.page}")
            page.wait_for_selector("#page:not(.loading)")
            page.evaluate(WATCH)
            watch(page, times, options.steps)
            browser.close()
        finally:
            job.kill()
            stop.set()
            for thread in threads:
                thread.join()
            server.stop()
    return summary(times)


def summary(times: Times) -> dict[str, Any]:
    """Spreads over all steps that were drawn; those drawn first were there before."""
    first = min((drawn for _, _, drawn, _ in times.drawn), default=0.0)
    seen = sorted({step for *_, steps in times.drawn for step in steps})
    parts = [p for s in seen if times.happened.get(s, 0) > first and (p := times.parts(s))]
    return {
        "conditions": conditions(ranks=8, recording=RECORDED.name),
        "event to pixel": spread([sum(part.values()) for part in parts]),
        "parts": {name: spread([part[name] for part in parts]) for name in PARTS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="steps to see (%(default)s)")
    parser.add_argument("--page", default="timeline", help="page to look at (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    report(measured(options), options.json)


if __name__ == "__main__":
    main()
