"""How fast, and in how much memory, a torch.profiler trace is imported; the json module beside it.

python benchmarks/import_speed.py [--mb 200] [--gzip]

Writes a trace of the wanted size, shaped like PyTorch's own, into a temporary folder, then runs
each way in a process of its own and prints MB of JSON a second and the peak resident memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MB = 10**6


def kineto_text(num_bytes: int) -> Iterator[bytes]:
    """A trace of about this size, in pieces: per step host operators, launches and kernels."""
    yield (
        b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], '
        b'"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, "traceEvents": ['
    )
    size, number = 0, 0
    while size < num_bytes:
        piece = (",\n".join(_events(number)) + ",\n").encode()
        yield piece
        size += len(piece)
        number += 1
    step = '{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, '
    yield (step + f'"ts": 0.000, "dur": {number * 50}.000}}').encode()
    yield b'], "displayTimeUnit": "ms", "baseTimeNanoseconds": 1751410836000000000}'


def _events(number: int) -> list[str]:
    ts = 4212936054935.31 + number * 50
    kernel = f"void at::native::vectorized_elementwise_kernel<4, F{number % 300}>(int, F&)"
    return [
        f"""  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::op_{number % 200}", "pid": 9, "tid": 9,
    "ts": {ts:.3f}, "dur": 40.125,
    "args": {{
      "External id": {number},"Record function id": {number}, "Sequence number": 7, "Ev Idx": 0
    }}
  }}""",
        f"""  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
    "ts": {ts + 5:.3f}, "dur": 8.250,
    "args": {{
      "External id": {number}, "cbid": 211, "correlation": {number}
    }}
  }}""",
        f"""  {{
    "ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7,
    "ts": {ts + 20:.3f}, "dur": 25.500,
    "args": {{
      "External id": {number}, "queued": 0, "device": 0, "context": 1, "stream": 7,
      "correlation": {number}, "registers per thread": 16, "shared memory": 0,
      "blocks per SM": 0.0125, "warps per SM": 0.05, "grid": [128, 1, 1], "block": [128, 1, 1]
    }}
  }}""",
        f"""  {{
    "ph": "s", "id": {number}, "pid": 9, "tid": 9, "ts": {ts + 5:.3f}, "cat": "ac2g", "name": "ac2g"
  }}""",
    ]


def read_with_rankscope(path: Path) -> int:
    """Import it; returns the number of events."""
    from ingest.imports import import_paths

    with tempfile.TemporaryDirectory() as runs:
        run = import_paths([path], runs)
        counted = json.loads((run / "run.json").read_text())["events_per_rank"]
        return int(sum(counted.values()))


def read_with_json(path: Path) -> int:
    """Only parse it."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return len(json.load(file)["traceEvents"])


def measure(read: Callable[[Path], int], path: Path) -> tuple[float, float, int]:
    """Seconds, peak memory in MB and events, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_measured, args=(read, path, answers))
    process.start()
    seconds, peak_mb, num_events = answers.get()
    process.join()
    return seconds, peak_mb, num_events


def _measured(
    read: Callable[[Path], int],
    path: Path,
    answers: multiprocessing.Queue[tuple[float, float, int]],
) -> None:
    began = time.perf_counter()
    num_events = read(path)
    seconds = time.perf_counter() - began
    answers.put((seconds, _peak_mb(), num_events))


def _peak_mb() -> float:
    """VmHWM: unlike ru_maxrss it does not count what the parent held when it started us."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError("/proc/self/status has no VmHWM; run this on Linux")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=200, help="size of the JSON text in MB")
    parser.add_argument("--gzip", action="store_true", help="gzip it, as PyTorch does on request")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("rank-0.json.gz" if arguments.gzip else "rank-0.json")
        size_mb = 0.0
        with gzip.open(path, "wb", 1) if arguments.gzip else path.open("wb") as file:
            for piece in kineto_text(arguments.mb * MB):
                file.write(piece)
                size_mb += len(piece) / MB
        for name, read in (("rankscope", read_with_rankscope), ("json", read_with_json)):
            seconds, peak_mb, num_events = measure(read, path)
            print(
                f"{name:10} {size_mb / seconds:7.1f} MB/s {peak_mb:8.0f} MB peak "
                f"{num_events:10,} events {seconds:6.1f} s"
            )


if __name__ == "__main__":
    main()
