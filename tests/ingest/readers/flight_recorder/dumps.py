"""Flight Recorder dumps, made by hand."""

from __future__ import annotations

import json
import pickle  # noqa: TID251  # as PyTorch writes them
from pathlib import Path
from typing import Any

T0 = 1758610505592849034

Json = dict[str, Any]


def entry(number: int, name: str = "nccl:all_reduce", **more: Any) -> Json:
    """What torch 2.9 writes of one collective."""
    is_p2p = "send" in name or "recv" in name
    return {
        "record_id": number,
        "pg_id": 1,
        "process_group": ("7", "mesh_tp"),
        "is_p2p": is_p2p,
        "collective_seq_id": 100 + number,
        "p2p_seq_id": 40 + number if is_p2p else 0,
        "op_id": number,
        "profiling_name": name,
        "time_created_ns": T0 + number * 1000,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "input_sizes": [[4, 2]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[3]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "retired": False,
        "timeout_ms": 600000,
        "thread_id": "1",
        "thread_name": "python3",
        "frames": [{"name": "f", "filename": "x.py", "line": 3}],
        **more,
    }


def dump(*entries: Json, **more: Any) -> Json:
    """Of four ranks, two of which are in the group that the entries name."""
    return {
        "version": "2.9",
        "pg_config": {
            "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
            "7": {"name": "7", "desc": "mesh_tp", "ranks": "[2, 3]"},
        },
        "nccl_version": "2.27.3",
        "pg_status": {
            "0": {f"last_{what}_collective": -1 for what in ("enqueued", "started", "completed")},
            "1": {
                "last_enqueued_collective": 105,
                "last_started_collective": -1,
                "last_completed_collective": 100,
            },
        },
        "entries": list(entries),
        **more,
    }


def write(folder: Path, rank: object, data: Json, as_json: bool = False) -> Path:
    """The file of a rank."""
    folder.mkdir(exist_ok=True)
    path = folder / f"nccl_trace_rank_{rank}"
    path.write_bytes(json.dumps(data).encode() if as_json else pickle.dumps(data, 2))
    return path
