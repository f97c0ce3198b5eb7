"""How long an import of logs takes, and how much memory.

python benchmarks/logs.py [--mb 1000] [--files 64 1] [--folder LOGS]

Makes logs of a training job (steps, progress bars, NCCL, warnings with changing words, a crash),
or takes those in a folder, imports them with `rankscope import`, and prints for each import: the
seconds that passed, the seconds of CPU of all its processes, the largest resident memory of any of
them, and how many rows log_lines has.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

REPO = Path(__file__).resolve().parents[1]
WORDS = tuple(f"{a}{b}" for a in ("lm", "attn", "mlp", "embed") for b in ("_in", "_out", "_proj"))


def write_logs(folder: Path, num_files: int, num_bytes: int) -> None:
    """Files of about the same size that add up to `num_bytes`."""
    for rank in range(num_files):
        rng = random.Random(rank)
        with (folder / f"rank_{rank}.log").open("w") as log:
            step = 0
            while log.tell() < num_bytes // num_files:
                step += 1
                log.write("".join(_step_lines(rng, rank, step)))
            log.write('Traceback (most recent call last):\n  File "train.py", line 9, in step\n')
            log.write("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")


def _step_lines(rng: random.Random, rank: int, step: int) -> list[str]:
    minute, second = divmod(step // 10, 60)
    when = f"2026-03-04 {minute // 60 % 24:02d}:{minute % 60:02d}:{second:02d},{step % 10}00"
    lines = [
        f"{when} - INFO - step {step} loss {rng.random() * 9:.4f} grad {rng.random():.3f} "
        f"tokens/s {rng.randrange(50_000)} mem {rng.randrange(80)}.{rng.randrange(99)}GiB\n",
        f"node{rank // 8}:{4000 + rank}:{5000 + rank} [{rank % 8}] NCCL INFO Channel "
        f"{step % 32:02d}/0 : {rank}[{rank % 8}] -> {rank + 1}[0] via P2P/IPC\n",
        f"{when} - DEBUG - {rng.choice(WORDS)}.{rng.randrange(80)} norm {rng.random():.6f} "
        f"id {rng.getrandbits(64):016x}\n",
    ]
    if step % 50 == 0:
        lines.append(f"{when} - WARNING - slow sample {rng.getrandbits(32):08x}.parquet skipped\n")
        bar = "".join(f"\r eval: {p}%|{'#' * (p // 10)}| {p}/100" for p in range(0, 101, 10))
        lines.append(bar + "\n")
    return lines


def measure(folder: Path) -> str:
    """A row of the table on one import."""
    num_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with tempfile.TemporaryDirectory() as runs:
        begun_s = time.monotonic()
        code = "from app.cli import main; raise SystemExit(main())"
        command = [sys.executable, "-c", code, "import", str(folder), "--into", runs]
        importing = subprocess.Popen(command, cwd=REPO, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(importing.pid, 0)
        took_s = time.monotonic() - begun_s
        if status:
            raise SystemExit(f"the import failed (status {status})")
        segments = Path(runs).glob("*/segments/log_lines*.parquet")
        num_rows = sum(pq.read_metadata(path).num_rows for path in segments)
    num_files = sum(path.is_file() for path in folder.rglob("*"))
    return (
        f"| {num_files} | {num_bytes / 1e6:,.0f} | {took_s:.1f} | {num_bytes / 1e6 / took_s:.1f} | "
        f"{used.ru_utime + used.ru_stime:.1f} | {used.ru_maxrss / 1e3:,.0f} | {num_rows:,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--files", type=int, nargs="*", default=[64, 1])
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    print("| files | MB | s | MB/s | CPU s | largest process MB | rows |")
    print("|---|---|---|---|---|---|---|")
    if arguments.folder is not None:
        print(measure(arguments.folder))
        return
    for num_files in arguments.files:
        with tempfile.TemporaryDirectory() as folder:
            write_logs(Path(folder), num_files, arguments.mb * 1_000_000)
            print(measure(Path(folder)), flush=True)


if __name__ == "__main__":
    main()
