"""Records at 1 Hz what the ranks of real 8-rank jobs use: noise for generated machines.

    python -m sample_traces.jobs.record_machine_noise --minutes 8

Each rank stands for a machine. Of its process are kept, each second: CPU time, time spent ready but
not running, switches of context that it chose and that it did not, page faults, memory and bytes
read and written. No names, process numbers or times of day are kept. The result, in
sample_traces/recorded/machine_noise.npz, holds per job an array [metric, rank, second] of 16-bit
numbers with one scale per metric.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

METRICS = ("cpu", "ready", "switched", "preempted", "faults", "memory", "io")
"""What is kept of a process; all but `memory` are increases per second."""

NUM_RANKS, WARM_UP_S, MOST = 8, 40, 32_000
TARGET = Path(__file__).resolve().parent.parent / "recorded" / "machine_noise.npz"


def record(minutes: float, steps: int) -> npt.NDArray[np.float64]:
    """Run one job and sample its ranks until it ends or the time is over, [metric, rank, s]."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "sample_traces.jobs.train_3d", "--runs", scratch]
        command += ["--nproc", str(NUM_RANKS), "--steps", str(steps), "--device", "cpu"]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            rows = sampled(job, minutes * 60 + WARM_UP_S)
        finally:
            job.terminate()
            job.wait()
    levels_TRM = np.array(rows[WARM_UP_S:])
    rates_TRM = np.diff(levels_TRM, axis=0)
    memory = METRICS.index("memory")
    rates_TRM[:, :, memory] = levels_TRM[1:, :, memory]
    return rates_TRM.transpose(2, 1, 0)


def sampled(job: subprocess.Popen[bytes], seconds: float) -> list[list[tuple[float, ...]]]:
    """One row a second: the values of each rank's process."""
    rows: list[list[tuple[float, ...]]] = []
    begin = time.monotonic()
    while job.poll() is None and time.monotonic() - begin < seconds:
        time.sleep(max(begin + len(rows) + 1 - time.monotonic(), 0.0))
        ranks = rank_processes(job.pid)
        if len(ranks) == NUM_RANKS:
            try:
                rows.append([values(pid) for pid in ranks])
            except (FileNotFoundError, ProcessLookupError):
                break  # the job ends
        elif rows:
            break
        else:
            begin = time.monotonic()
    return rows


def rank_processes(launcher: int) -> list[int]:
    """The processes below the launcher that run the job's module, in order of birth: its ranks."""
    parents = dict(_parents())
    found = [pid for pid in parents if _is_below(pid, launcher, parents)]
    return sorted(pid for pid in found if b"train_3d" in _command_line(pid))[:NUM_RANKS]


def _parents() -> Iterator[tuple[int, int]]:
    """Process numbers with those of their parents."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(folder.name), int(stat.rpartition(")")[2].split()[1])


def _is_below(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    parent = parents.get(pid, 0)
    return parent == ancestor or (parent > 1 and _is_below(parent, ancestor, parents))


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def values(pid: int) -> tuple[float, ...]:
    """In the order of METRICS; counters as they are."""
    folder = Path(f"/proc/{pid}")
    stat = (folder / "stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    ready_ns = switched = preempted = 0
    for task in (folder / "task").iterdir():
        try:
            ready_ns += int((task / "schedstat").read_text().split()[1])
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in status.splitlines():
            if line.startswith("voluntary_ctxt"):
                switched += int(line.split()[1])
            elif line.startswith("nonvoluntary_ctxt"):
                preempted += int(line.split()[1])
    io = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
    return (
        (int(stat[11]) + int(stat[12])) / ticks,
        ready_ns / 1e9,
        float(switched),
        float(preempted),
        float(int(stat[7]) + int(stat[9])),
        float(stat[21]),
        float(int(io["rchar"]) + int(io["wchar"])),
    )


def packed(jobs: list[npt.NDArray[np.float64]]) -> dict[str, npt.NDArray[np.generic]]:
    """Arrays of 16-bit numbers, with their scales."""
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for index, values_MRT in enumerate(jobs):
        scale_M = np.maximum(np.abs(values_MRT).max(axis=(1, 2)), 1e-12) / MOST
        arrays[f"scale_{index}"] = scale_M
        arrays[f"values_{index}"] = np.rint(values_MRT / scale_M[:, None, None]).astype(np.int16)
    return arrays


def main() -> None:
    """Record and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="of each job")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--to", type=Path, default=TARGET)
    args = parser.parse_args()
    jobs = [record(args.minutes, args.steps) for _ in range(args.jobs)]
    np.savez_compressed(args.to, **packed(jobs))
    print(f"{args.to}: {[job.shape for job in jobs]}, {args.to.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
