"""Traces for ingest_speed.py: a real profile repeated to any size, full Flight Recorders."""

from __future__ import annotations

import gzip
import json
import pickle  # noqa: TID251  # written as PyTorch does, never read here
import re
from collections.abc import Iterator
from pathlib import Path

MB = 10**6
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_TIME = re.compile(rb'("ts"\s*:\s*)(\d+)')
_IDS = re.compile(rb'("(?:id|External id|correlation)"\s*:\s*)(\d+)')
_STEP = re.compile(rb"(ProfilerStep#)(\d+)")
_RANK = re.compile(rb'("rank"\s*:\s*)\d+')
_STEPS_APART = 100
_IDS_APART = 10**9
_ENTRIES = 2000
"""TORCH_FR_BUFFER_SIZE by default"""


class Profile:
    """A profile as PyTorch wrote it, whose events can be repeated byte by byte."""

    def __init__(self, path: Path) -> None:
        text = path.read_bytes()
        text = gzip.decompress(text) if path.suffix == ".gz" else text
        begin = _EVENTS.search(text)
        if begin is None:
            raise SystemExit(f"{path} has no traceEvents; give a profile of torch.profiler")
        events, end = json.JSONDecoder().raw_decode(text.decode(), begin.end() - 1)
        self.num_events = len(events)
        self._head, self._tail = text[: begin.end()], text[end - 1 :]
        self._events = text[begin.end() : end - 1].rstrip()
        times = [float(event["ts"]) for event in events if "ts" in event]
        self._span_us = int(max(times) - min(times)) + 1000

    def write(self, path: Path, num_bytes: int, rank: int = 0) -> tuple[int, int]:
        """Copies one after another in time, with steps and ids of their own; (bytes, events)."""
        copies = 0
        with path.open("wb") as file:
            file.write(_RANK.sub(rb"\g<1>%d" % rank, self._head, count=1))
            while file.tell() < num_bytes:
                file.write(b",\n" * bool(copies) + self._copy(copies))
                copies += 1
            file.write(self._tail)
            return file.tell(), copies * self.num_events

    def _copy(self, number: int) -> bytes:
        text = self._events
        for pattern, apart in ((_TIME, self._span_us), (_IDS, _IDS_APART), (_STEP, _STEPS_APART)):
            text = pattern.sub(_later(number * apart), text)
        return text


def _later(by: int):  # type: ignore[no-untyped-def]
    return lambda match: match[1] + str(int(match[2]) + by).encode()


def write_flight_recorders(folder: Path, num_ranks: int, num_frames: int) -> int:
    """A dump of each rank of a job, its ring full, with stacks so deep; returns their bytes."""
    folder.mkdir()
    size = 0
    for rank in range(num_ranks):
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_bytes(pickle.dumps(_dump(rank, num_ranks, num_frames), protocol=2))
        size += path.stat().st_size
    return size


def _dump(rank: int, num_ranks: int, num_frames: int) -> dict[str, object]:
    ranks = json.dumps(list(range(num_ranks)))
    return {
        "version": "2.10",
        "nccl_version": "2.27.5",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {
            0: {
                "last_enqueued_collective": _ENTRIES,
                "last_started_collective": _ENTRIES,
                "last_completed_collective": _ENTRIES - 1,
            }
        },
        "entries": list(_entries(rank, num_frames)),
    }


def _entries(rank: int, num_frames: int) -> Iterator[dict[str, object]]:
    for number in range(_ENTRIES):
        begun_ns = 1_751_410_836_000_000_000 + number * 2_000_000 + rank * 1000
        done = number < _ENTRIES - 1
        yield {
            "frames": [
                {"name": f"call_{depth}", "filename": f"/job/{depth}.py", "line": 10 + number % 7}
                for depth in range(num_frames)
            ],
            "record_id": number,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": number + 1,
            "p2p_seq_id": 0,
            "op_id": number + 1,
            "profiling_name": "nccl:all_reduce",
            "time_created_ns": begun_ns,
            "time_discovered_started_ns": begun_ns + 10_000,
            "time_discovered_completed_ns": begun_ns + 90_000 if done else None,
            "input_sizes": [[4096, 1024]],
            "input_dtypes": ["BFloat16"],
            "output_sizes": [[4096, 1024]],
            "output_dtypes": ["BFloat16"],
            "state": "completed" if done else "started",
            "retired": done,
            "timeout_ms": 600_000,
            "is_p2p": False,
        }
