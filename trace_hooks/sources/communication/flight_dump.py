"""Entries of torch's Flight Recorders, as plain dicts.

NCCL has one of its own and numbers its records itself; all other backends share one (torch 2.8 and
later, in some later versions NCCL's is the shared one under two names). A dump of a full recorder
(2,000 entries) takes some 50 ms and as much again to parse, all of it under the GIL (torch 2.13;
benchmarks/hook_overhead.py prints it). So only new entries are parsed, and callers read rarely.
"""

from __future__ import annotations

import json
from typing import Any

Entry = dict[str, Any]

_ID = b'"record_id":'


SHARED, NCCL = "_dump_fr_trace_json", "_dump_nccl_trace_json"
"""The recorders, by the names of torch's functions that read them."""


def recorder_of(backend: str) -> str:
    """The recorder that a backend writes to."""
    return NCCL if backend == "nccl" else SHARED


def dump(recorder: str = SHARED) -> bytes:
    """One recorder as JSON; empty where this torch has none."""
    try:
        from torch._C import _distributed_c10d as c10d
    except ImportError:
        return b""
    read = getattr(c10d, recorder, None)
    return b"" if read is None else bytes(read())


def entries_from(data: bytes, first: int) -> list[Entry]:
    """Entries of a dump whose record_id is at least `first`, oldest first.

    Raises ValueError where the dump is not JSON.
    """
    if not data:
        return []
    newest = data.rfind(_ID)
    if newest < 0 or _number_at(data, newest) < first:
        return []
    entries: list[Entry] = json.loads(_tail(data, first)).get("entries", [])
    return [entry for entry in entries if entry["record_id"] >= first]


def _tail(data: bytes, first: int) -> bytes:
    """The dump without the entries older than `first`; all of it where its layout is unknown."""
    first_at = data.rfind(b"%s%d," % (_ID, first))
    begin = data.rfind(b'{"collective_seq_id":', 0, first_at) if first_at >= 0 else -1
    end = data.rfind(b'],"nccl_comm_state"')
    if begin < 0 or end < begin:
        return data
    return b'{"entries":[' + data[begin : end + 1] + b"}"


def _number_at(data: bytes, begin: int) -> int:
    digits = data[begin + len(_ID) : begin + len(_ID) + 20]
    return int(digits.partition(b",")[0])


def last_numbers(entries: list[Entry]) -> dict[str, int]:
    """Number of the last collective of each group, by group name."""
    return {
        entry["process_group"][0]: entry["collective_seq_id"]
        for entry in entries
        if not entry["is_p2p"]
    }
