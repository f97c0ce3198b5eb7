"""How long a tile of the timeline takes, from the request to its last byte, over real HTTP.

python benchmarks/timeline_tiles.py [--asks 40] [--json]

Three runs: the recorded 8-rank job, a synthetic one of 1,024 ranks of which 64 are lanes, and a
synthetic one of 8 ranks and 3,000 steps. Windows: two steps, a tenth of one step, everything. Each
request has a slightly different window, so that no answer comes from the cache.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path

from browser import REPO, Server, conditions, report, spread

from ingest.run import open_run
from sample_traces.generate.job import SyntheticJob
from sample_traces.generate.tables.write import generate

WIDTH_PX = 1200
LANES = {"recorded": "0-7", "ranks1024": "0-63", "steps3000": "0-7"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--asks", type=int, default=40, help="requests per window (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        make_runs(runs)
        server = Server(runs).start()
        try:
            by_name = {run: measured(server.url, run, arguments.asks) for run in LANES}
        finally:
            server.stop()
    report({"conditions": conditions(width_px=WIDTH_PX), **by_name}, arguments.json)


def make_runs(runs: Path) -> None:
    """The three runs."""
    runs.mkdir()
    shutil.copytree(REPO / "sample_traces" / "recorded" / "slow_rank", runs / "recorded")
    generate(SyntheticJob(1024, pp=8, tp=8, num_steps=6), runs / "ranks1024")
    generate(SyntheticJob(8, pp=2, tp=2, num_steps=3000), runs / "steps3000")
    for folder in runs.iterdir():
        open_run(folder).close()  # indexes it


def measured(url: str, run: str, asks: int) -> dict[str, dict[str, float]]:
    """Times per kind of window; its name says how the answer was made and of how many spans."""
    _, _, meta = fetch(f"{url}/api/run/{run}/timeline?ranks={LANES[run]}&width={WIDTH_PX}")
    begin, end = meta["from"], meta["to"]
    whole = meta["extent"]
    windows = {
        "two steps": (begin, end),
        "a tenth of a step": (begin, begin + (end - begin) // 20),
        "everything": (whole["begin_ns"], whole["end_ns"]),
    }
    return dict(times(url, run, name, window, asks) for name, window in windows.items())


def times(
    url: str, run: str, name: str, window: tuple[int, int], asks: int
) -> tuple[str, dict[str, float]]:
    """Description of a request and the spread of its times in ms."""
    times_ms, size, meta = [], 0, {}
    for number in range(asks):
        moved = number * max((window[1] - window[0]) // 1000, 1)
        query = f"from={window[0] + moved}&to={window[1] + moved}&width={WIDTH_PX}"
        took_ms, size, meta = fetch(f"{url}/api/run/{run}/timeline?ranks={LANES[run]}&{query}")
        times_ms.append(took_ms)
    title = f"{name}: {meta['num_spans']:,} spans, {meta['detail']}, {size / 1e3:.0f} kB"
    return title, spread(times_ms)


def fetch(url: str) -> tuple[float, int, dict]:
    """ms to the last byte, bytes sent, the header of the answer."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    begun = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        content = answer.read()
        took_ms = (time.perf_counter() - begun) * 1e3
        plain = gzip.decompress(content) if answer.headers["Content-Encoding"] else content
    size = int.from_bytes(plain[:4], "little")
    return took_ms, len(content), json.loads(plain[4 : 4 + size])


if __name__ == "__main__":
    main()
