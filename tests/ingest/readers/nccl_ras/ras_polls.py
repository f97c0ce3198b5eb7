"""Polls of NCCL's RAS, made after its source (src/ras/client_support.cc)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
HOST = "10.0.77.184"
OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def member(rank: int, process: int, **counts: int) -> Json:
    """A rank that answers; process: its number in the job."""
    return {
        "rank": rank,
        "host": HOST,
        "pid": 1000 + process,
        "cuda_dev": process,
        "nvml_dev": process,
        "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        },
        "collective_counts": {op: counts.get(op, 0) for op in OPERATIONS},
    }


def missing(rank: int, process: int, dead: bool = False) -> Json:
    """A rank that does not answer."""
    found = member(rank, process)
    del found["collective_counts"]
    return found | {"status": {"unresponsive": not dead, "considered_dead": dead}}


def communicator(name: str, ranks: list[Json], gone: list[Json] | None = None) -> Json:
    """Of the ranks given."""
    gone = gone or []
    return {
        "hash": name,
        "secondary_hash": "0x2cd6:0xe685",
        "size": len(ranks) + len(gone),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(gone),
        "ranks": ranks,
        "missing_ranks": gone,
    }


def world(counts: dict[int, int], gone: list[Json] | None = None, name: str = "0x51") -> Json:
    """A communicator of all processes, with all-reduces that each has launched."""
    ranks = [member(rank, rank, AllReduce=n, Broadcast=2) for rank, n in counts.items()]
    return communicator(name, ranks, gone)


def poll(at_s: int, *communicators: Json) -> Json:
    """A status at so many seconds after noon."""
    return {
        "nccl_version": "2.28.9",
        "cuda_runtime_version": 12090,
        "cuda_driver_version": 13000,
        "timestamp": f"2026-06-19 12:{at_s // 60:02d}:{at_s % 60:02d}",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
    }


def write(folder: Path, *polls: Json) -> Path:
    """A file for each."""
    folder.mkdir(exist_ok=True)
    for number, one in enumerate(polls):
        (folder / f"ras_{number}.json").write_text(json.dumps(one, indent=2))
    return folder
