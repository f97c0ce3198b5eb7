"""What the telemetry of a machine costs: CPU time of the sampler, bytes, and its effect on a step.

python benchmarks/telemetry.py [--seconds 120] [--ranks 8] [--rounds 10] [--turn 3]

The sampler runs in a process of its own, as in the watchdog, for ranks that only sleep. For the
effect it is continued and stopped (SIGCONT, SIGSTOP) next to a training process on the same core.
Each turn with it has turns without it right before and after; `off (null)` is one without it, too.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from step_overhead import Training
from timing import in_turns

from ingest.index.indexer import Indexer
from trace_hooks.schema import SCHEMA_VERSION, publish_json

WARM_UP_S = 15.0
DAY_S, HOUR_S = 86_400, 3_600
_SAMPLER = """
import os, sys, time
from pathlib import Path
from trace_hooks.recording.clock import Anchor
from trace_hooks.telemetry.publisher import Target
from trace_hooks.telemetry.telemetry import RankView, Telemetry
folder, *pids = sys.argv[1:]
telemetry = Telemetry()
views = [RankView(rank, int(pid), 0) for rank, pid in enumerate(pids)]
telemetry.update(views, Target(Path(folder), 0, 0, Anchor().offset_ns))
telemetry.start()
while True:
    time.sleep(3600)
"""


@contextmanager
def sampler(folder: Path, num_ranks: int) -> Iterator[int]:
    """A process that samples this host for so many sleeping ranks; its pid."""
    ranks = [subprocess.Popen(["sleep", "1000000"]) for _ in range(num_ranks)]
    command = [sys.executable, "-c", _SAMPLER, str(folder), *(str(rank.pid) for rank in ranks)]
    process = subprocess.Popen(command)
    try:
        yield process.pid
    finally:
        for child in (process, *ranks):
            child.kill()
            child.wait()


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process so far. Source: Linux' scheduler/sched-stats."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def resident_mb(pid: int) -> float:
    """Resident memory, 1e6 bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Volume(NamedTuple):
    """What was written in a while."""

    num_files: int
    num_bytes: int


def written(folder: Path, part: str) -> Volume:
    """Files of samples in a part of the run folder."""
    sizes = [path.stat().st_size for path in (folder / part).glob("host_metrics-*.parquet")]
    return Volume(len(sizes), sum(sizes))


def merged_bytes(folder: Path) -> int:
    """Bytes once the server has merged the segments as far as it does."""
    publish_json(
        {
            "schema": SCHEMA_VERSION,
            "run": folder.name,
            "created_ns": time.time_ns(),
            "clock": "absolute",
            "source": "hooks",
            "framework": "",
            "versions": {},
        },
        folder / "run.json",
    )
    for path in (folder / "segments").glob("*"):  # a table is merged once it is a minute old
        os.utime(path, (time.time() - 3600,) * 2)
    with Indexer(folder) as indexer:
        indexer.compaction.grace_s = 0.0
        while indexer.refresh().merged_files:
            pass
        indexer.refresh()
    return written(folder, "segments").num_bytes + written(folder, "compacted").num_bytes


def print_host(num_ranks: int, seconds: float) -> None:
    """CPU time and bytes of one host."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with sampler(folder, num_ranks) as pid:
            time.sleep(WARM_UP_S)
            start_s, before, begun_s = cpu_s(pid), written(folder, "segments"), time.monotonic()
            time.sleep(seconds)
            spent_s, took_s = cpu_s(pid) - start_s, time.monotonic() - begun_s
            after, memory_mb = written(folder, "segments"), resident_mb(pid)
        files = after.num_files - before.num_files
        num_bytes = after.num_bytes - before.num_bytes
        share = merged_bytes(folder) / after.num_bytes
    print(f"| one host, {num_ranks} ranks | |\n|---|---|")
    print(f"| CPU s an hour | {spent_s / took_s * HOUR_S:.2f} |")
    print(f"| share of a core, % (target: at most 0.1) | {spent_s / took_s * 100:.3f} |")
    print(f"| CPU s to start | {start_s:.2f} |")
    print(f"| resident, MB | {memory_mb:.0f} |")
    print(f"| MB a day as written | {num_bytes / took_s * DAY_S / 1e6:.1f} |")
    print(f"| MB a day after merging | {num_bytes * share / took_s * DAY_S / 1e6:.1f} |")
    print(f"| files an hour as written | {files / took_s * HOUR_S:.0f} |")


class StepTime(NamedTuple):
    """Mean ms of the steps of a turn: of the wall clock, and of the thread's CPU time."""

    wall: float
    thread: float


def step_time(training: Training, turn_s: float) -> StepTime:
    """Train for a while."""
    begun_s, begun_cpu_s, steps = time.perf_counter(), time.thread_time(), 0
    while time.perf_counter() - begun_s < turn_s:
        training.step()
        steps += 1
    cpu_ms = (time.thread_time() - begun_cpu_s) / steps * 1e3
    return StepTime((time.perf_counter() - begun_s) / steps * 1e3, cpu_ms)


def print_effect(num_ranks: int, rounds: int, turn_s: float) -> None:
    """How much longer a step is next to the sampler, on the same core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # children inherit it
    torch.set_num_threads(1)
    training = Training()
    with tempfile.TemporaryDirectory() as name, sampler(Path(name), num_ranks) as pid:
        time.sleep(WARM_UP_S)
        training.step()

        def turn(way: str) -> list[StepTime]:
            times = []
            for now in ("off", way, "off"):
                os.kill(pid, signal.SIGCONT if now == "on" else signal.SIGSTOP)
                times.append(step_time(training, turn_s))
            return times

        by_way = in_turns(("off (null)", "on"), rounds, turn)
        os.kill(pid, signal.SIGCONT)
    print(f"\n| {rounds} rounds of {turn_s:g} s | thread ms | ratio | quartiles | wall ratio |")
    print("|---|---|---|---|---|")
    for way, turns in by_way.items():
        own_ms = statistics.median(own.thread for _, own, _ in turns)
        thread = [2 * own.thread / (one.thread + other.thread) for one, own, other in turns]
        wall = [2 * own.wall / (one.wall + other.wall) for one, own, other in turns]
        low, middle, high = statistics.quantiles(thread, n=4)
        cells = f"{own_ms:.2f} | {middle:.4f} | {low:.3f}-{high:.3f}"
        print(f"| {way} | {cells} | {statistics.median(wall):.4f} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turn", type=float, default=3.0)
    options = parser.parse_args()
    print_host(options.ranks, options.seconds)
    print_effect(options.ranks, options.rounds, options.turn)


if __name__ == "__main__":
    main()
