"""How launchers lay out the lines of a job in files, with each process's way to write times."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from sample_traces.logs.entries import Entry, Job


def write(job: Job, folder: Path, lost: frozenset[int]) -> None:
    """The files of a job. `lost`: ranks whose files are missing."""
    files: dict[str, list[str]] = defaultdict(list)
    kernel_style = job.rng.choice(("iso", "dmesg", "syslog"))
    for entry in sorted(job.entries, key=lambda each: each.at_ns):
        if entry.rank in lost and job.launcher != "mixed":
            continue
        name = _file_of(job, entry)
        files[name].extend(_lines(job, entry, kernel_style))
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def _file_of(job: Job, entry: Entry) -> str:
    name = job.host_name(entry.host)
    if entry.stream == "kernel":
        return f"{name}/kern.log"
    if job.launcher == "slurm":
        return f"slurm-881234_{entry.rank}.out" if entry.rank >= 0 else "slurm-881234.out"
    if job.launcher == "mixed":
        return f"{name}/train.log"
    if entry.rank < 0:
        return f"{name}/torchrun.log"
    if job.launcher == "torchrun":
        stream = f"{entry.stream}.log"
        return f"{name}/none_x7s2/attempt_0/{entry.rank % 8}/{stream}"
    return f"{name}/rank_{entry.rank}.log"


def _lines(job: Job, entry: Entry, kernel_style: str) -> list[str]:
    local_ns = entry.at_ns + job.offsets_ns[entry.host]
    when = datetime.fromtimestamp(local_ns // 10**9, UTC)
    nanos = local_ns % 10**9
    text = entry.text.replace("{when}", f"{when:%Y-%m-%dT%H:%M:%S}")
    lead = _lead(job, entry, when, nanos, kernel_style)
    lines = (lead + text).split("\n")
    needs_prefix = job.launcher in ("mixed", "torchrun") and entry.rank >= 0
    if job.launcher == "torchrun" and entry.style != "c10d":
        needs_prefix = False
    if not needs_prefix:
        return lines
    return [f"[rank{entry.rank}]:{line if line.startswith('[') else ' ' + line}" for line in lines]


def _lead(job: Job, entry: Entry, when: datetime, nanos: int, kernel_style: str) -> str:
    name = job.host_name(entry.host)
    if entry.style == "log":
        return f"{when:%Y-%m-%d %H:%M:%S},{nanos // 10**6:03d} - {entry.level} - "
    if entry.style == "c10d":
        return f"[{entry.level[0]}{when.month}{when:%d} {when:%H:%M:%S}.{nanos:09d} ProcessGroupNCCL.cpp:683] "
    if entry.style == "nccl":
        return f"[{when:%Y-%m-%d %H:%M:%S}] "
    if entry.style == "launcher":
        return f"W{when:%m%d %H:%M:%S}.{nanos // 1000:06d} 3911 torch/distributed/elastic/multiprocessing/api.py:1029] "
    if entry.style == "kernel" and kernel_style == "iso":
        return f"{when:%Y-%m-%dT%H:%M:%S}.{nanos // 1000:06d}+00:00 {name} kernel: "
    if entry.style == "kernel" and kernel_style == "dmesg":
        return f"[{when:%a %b} {when.day:2d} {when:%H:%M:%S %Y}] "
    if entry.style == "kernel":
        return (
            f"{when:%b} {when.day:2d} {when:%H:%M:%S} {name} kernel: [{4_000 + nanos / 1e9:12.6f}] "
        )
    return ""


def lost_ranks(rng: random.Random, job: Job, needed: Iterable[int]) -> frozenset[int]:
    """In a fifth of the jobs two files are missing, none of a rank that the truth needs."""
    if rng.random() > 0.2:
        return frozenset()
    free = sorted(set(range(1, job.num_ranks)) - set(needed))
    return frozenset(rng.sample(free, min(2, len(free))))
