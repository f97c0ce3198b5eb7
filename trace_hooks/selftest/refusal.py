"""Whether a job trains on this rank's host and device: then nothing is measured.

Two signs, both without asking the job: a run folder in which a rank of this host has no end and
whose process still runs, and memory of the accelerator in use. torch.cuda.mem_get_info counts the
memory of all processes on the device, whoever started them, and needs no NVML.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_hooks.job.process_info import host_name, start_ticks
from trace_hooks.selftest.compute import Own

MOST_USED_BYTES = 3 << 30
"""Of an idle accelerator, with the contexts of the ranks that are about to measure."""
_YOUNG_S = 5.0
"""A process that began later than its rank's file says is another one with the same number."""


def why_busy(folder: Path, own: Own) -> list[str]:
    """A sentence for each sign that somebody trains here; empty: go ahead."""
    return [*_live_ranks(folder, host_name()), *_used_memory(own)]


def _live_ranks(folder: Path, host: str) -> Iterator[str]:
    for run in sorted(path for path in _entries(folder) if (path / "ranks").is_dir()):
        live = sorted(
            info["rank"] for info in _rank_files(run) if info["host"] == host and _is_live(info)
        )
        if live:
            ranks = ", ".join(map(str, live[:8])) + (", ..." if len(live) > 8 else "")
            yield f"rank {ranks} of the run {run.name} is running on {host}"


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _rank_files(run: Path) -> Iterator[Mapping[str, Any]]:
    for path in (run / "ranks").glob("*.json"):
        try:
            info = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(info, dict) and {"rank", "host", "pid", "started_ns", "end"} <= info.keys():
            yield info


def _is_live(info: Mapping[str, Any]) -> bool:
    """Whether its process runs, and is not a later one with the same number."""
    ticks = start_ticks(info["pid"]) if info["end"] is None and info["pid"] > 0 else None
    if ticks is None:
        return False
    began_s = _boot_s() + ticks / os.sysconf("SC_CLK_TCK")
    return bool(began_s < info["started_ns"] / 1e9 + _YOUNG_S)


def _boot_s() -> float:
    """When the host was started, Unix s. Source: proc(5), btime of /proc/stat."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return float(next(line for line in lines if line.startswith("btime ")).split()[1])


def _used_memory(own: Own) -> Iterator[str]:
    if own.kind != "cuda":
        return
    import torch

    free, total = torch.cuda.mem_get_info(own.where)
    if total - free > MOST_USED_BYTES:
        used = (total - free) / (1 << 30)
        yield f"{used:.1f} GiB of the memory of {own.where} ({own.name}) are in use"
