"""From a forward to the viewer: how old frames are when they arrive, and how many arrive.

    python benchmarks/frame_latency.py [--seconds 30] [--size 64] [--page | --demo] [--json]

One process trains a GPT and its agent sends all attention heads of one layer, every step, to the
real server; a client of /live/frames takes them as a browser does. A frame's age is the time from
its capture in the forward (its ts_ns) until the client has it; a set is all heads of one step.
`--page` opens the tab Model in Chromium instead of the client: there a frame is drawn when the
browser has displayed the first picture that begins after the frame has arrived. `--demo` does so in
the job of `rankscope demo`: attention of all heads and layers, of both stages and all their ranks.
All clocks are this machine's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from browser import (
    FLAGS,
    MISSING,
    REPO,
    Demo,
    Server,
    chromium,
    clean_environment,
    conditions,
    report,
    spread,
)
from websockets.sync.client import connect

from trace_hooks.protocol.frames import decode
from trace_hooks.protocol.watches import MAX_BYTES_PER_S, MAX_ROWS

RUN, TOKEN = "frames", "a-secret-of-the-benchmark"
LAYER, NUM_LAYERS = 1, 2
MEGASCOPE_BYTES = 23
"""Bytes a value takes in MegaScope's JSON."""
WARM_UP_STEPS = 3
_START_S = 120.0

TRAIN = f"""
import sys, torch, trace_hooks as th
from pathlib import Path
from torch.nn import functional
from sample_traces.jobs.model import GPTSizes, build_stage
torch.set_num_threads(1)
heads, seq = int(sys.argv[1]), int(sys.argv[2])
sizes = GPTSizes({NUM_LAYERS}, 16 * heads, heads, seq_len=seq)
model = build_stage(sizes, 0, 1, 0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
tokens = torch.randint(sizes.vocabulary, (1, seq + 1))
tracer = th.start(sys.argv[3], run="{RUN}", model=model, allow_content=True)
tracer.inspect(dict(what="attention", layers=[{LAYER}], rows={MAX_ROWS},
                    bytes_per_s={MAX_BYTES_PER_S}, size=int(sys.argv[4]) or None))
while True:
    with tracer.step():
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
"""

# notes when each frame has come and when the picture after it is on the screen
WATCH = """() => {
    window.frames = [];
    const add = WebSocket.prototype.__lookupSetter__('onmessage');
    Object.defineProperty(WebSocket.prototype, 'onmessage', { set(handler) {
        add.call(this, (event) => {
            handler(event);
            if (typeof event.data === 'string') return;
            const size = new DataView(event.data).getUint32(4, true);
            const frame = JSON.parse(new TextDecoder().decode(event.data.slice(8, 8 + size)));
            const received = Date.now();
            // the page draws in the next frame; the one after it begins when that has been shown
            requestAnimationFrame(() => requestAnimationFrame(() => {
                frames.push([frame.step, frame.ts_ns / 1e6, received, Date.now()]);
            }));
        });
    } });
}"""

DEMO_RANKS, DEMO_HEADS = 8, 32
"""of the demo: its ranks, and heads of all its layers together"""
CONNECTED = f"""async () => {{
    const run = location.pathname.split('/')[2];
    const answer = await (await fetch(`/api/watch?run=${{run}}`)).json();
    return answer.ranks.filter((rank) => rank.state === 'connected').length >= {DEMO_RANKS};
}}"""
BEGIN = """async (watch) => {
    const run = location.pathname.split('/')[2];
    await fetch(`/api/watch?run=${run}`, {
        method: 'POST', headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ watches: [watch] }),
    });
}"""

Seen = tuple[int, float, float, float]
"""Step; Unix ms when the frame was captured, when it had come and when it was drawn."""


def seen_by_client(server: Server, seconds: float) -> tuple[list[Seen], list[int]]:
    """Frames that a plain client gets, and bytes of each."""
    address = f"ws://127.0.0.1:{server.port}/live/frames?run={RUN}"
    frames: list[Seen] = []
    sizes = []
    with connect(address, max_size=None, compression=None) as opened:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            message = opened.recv(_START_S)
            if isinstance(message, bytes):
                now_ms = time.time_ns() / 1e6
                frame = decode(message)
                frames.append((frame.step, frame.ts_ns / 1e6, now_ms, now_ms))
                sizes.append(len(message))
    return frames, sizes


def seen_on_page(server: Server, seconds: float) -> tuple[list[Seen], list[int]]:
    """Frames that the tab Model draws."""
    return drawn(f"{server.url}/run/{RUN}", seconds), []


def drawn(url: str, seconds: float, watch: Mapping[str, Any] | None = None) -> list[Seen]:
    """Frames that the tab Model of the run at `url` draws; where one is given, of this watch."""
    from playwright.sync_api import sync_playwright

    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.add_init_script(f"({WATCH})()")
        page.goto(f"{url}/model?m.view=inspect")
        if watch is not None:
            _until(page, CONNECTED, "the ranks did not connect")
            page.evaluate(BEGIN, dict(watch))
        _until(page, "frames.length", "no frame came to the page")
        page.wait_for_timeout(seconds * 1e3)
        rows = [tuple(one) for one in page.evaluate("frames")]
        browser.close()
    return rows


def _until(page: Any, script: str, otherwise: str) -> None:
    """Wait until a script finds something; the page's policy lets no other wait through."""
    deadline = time.monotonic() + _START_S
    while not page.evaluate(script):
        if time.monotonic() > deadline:
            raise SystemExit(f"{otherwise}; see the server's output")
        page.wait_for_timeout(100)


def seen_in_demo(options: argparse.Namespace) -> list[Seen]:
    """Frames of the demo's job that the page draws."""
    with tempfile.TemporaryDirectory() as scratch:
        demo = Demo(Path(scratch))
        try:
            watch = {"what": "attention"} | ({"size": options.size} if options.size else {})
            return drawn(demo.url(), options.seconds, watch)
        finally:
            demo.stop()


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run server, job and client."""
    if options.demo:
        return summary(options, seen_in_demo(options), [])
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) / "runs"
        runs.mkdir()
        server = Server(runs, "--job-token", TOKEN).start()
        arguments = [str(options.heads), str(options.seq), str(runs), str(options.size)]
        job = subprocess.Popen(
            [sys.executable, "-c", TRAIN, *arguments],
            cwd=REPO,
            env={
                **clean_environment(),
                "TRACE_HOOKS_SERVER": f"ws://127.0.0.1:{server.port}",
                "TRACE_HOOKS_TOKEN": TOKEN,
                "OMP_NUM_THREADS": "1",
            },
        )
        try:
            _wait_for(server, runs, job)
            seen = seen_on_page if options.page else seen_by_client
            found, sizes = seen(server, options.seconds)
        finally:
            job.kill()
            job.wait()
            server.stop()
    return summary(options, found, sizes)


def _wait_for(server: Server, runs: Path, job: subprocess.Popen[bytes]) -> None:
    """Until the job has written its first frames, which it sends then."""
    deadline = time.monotonic() + _START_S
    while not any(runs.glob(f"{RUN}/segments/frames-*")):
        if job.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(
                f"the job sent no frames; the server's output:\n{server.log.read_text()}"
            )
        time.sleep(0.1)


def summary(options: argparse.Namespace, found: list[Seen], sizes: list[int]) -> dict[str, Any]:
    """Ages of frames and rates, without what was there before and the steps that warm up."""
    first = min((step for step, *_ in found), default=0) + WARM_UP_STEPS
    kept = [one for one in found if one[0] >= first]
    heads = Counter(step for step, *_ in kept)
    num_heads = DEMO_HEADS if options.demo else options.heads
    whole = [step for step, number in heads.items() if number >= num_heads]
    seconds = (max(one[2] for one in kept) - min(one[2] for one in kept)) / 1e3 if kept else 0.0
    shape = f"one process, {options.heads} heads x {options.seq} x {options.seq}"
    if options.demo:
        shape = f"rankscope demo, {DEMO_HEADS} heads of all layers"
    if options.size:
        shape += f" as tiles of {options.size}"
    on_page = options.page or options.demo
    values = (options.size or options.seq) ** 2
    result = {
        "conditions": conditions(job=f"{shape}, every step", load="this benchmark's"),
        "forward to client" if not on_page else "forward to browser": {
            "age": spread([received - made for _, made, received, _ in kept])
        },
        "rates": {
            "frames a second": round(len(kept) / seconds, 1) if seconds else 0,
            "sets of all heads a second": round(len(whole) / seconds, 2) if seconds else 0,
            "sets that lack a head": len(heads) - len(whole),
        },
    }
    if on_page:
        result["forward to pixel"] = {"age": spread([drawn - made for _, made, _, drawn in kept])}
    if sizes:
        a_frame = sum(sizes) / len(sizes)
        result["bytes"] = {
            "a frame": round(a_frame),
            "a value": round(a_frame / values, 3),
            "MegaScope's JSON, a frame": MEGASCOPE_BYTES * values,
            "times less": round(MEGASCOPE_BYTES * values / a_frame, 1),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to measure")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--seq", type=int, default=512, help="tokens of the sequence")
    parser.add_argument("--size", type=int, default=0, help="pixels of a tile; 0 every value")
    parser.add_argument("--page", action="store_true", help="measure in Chromium, to the pixel")
    parser.add_argument("--demo", action="store_true", help="the same in the job of the demo")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    report(measured(options), options.json)


if __name__ == "__main__":
    main()
