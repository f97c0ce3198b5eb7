"""Answers of the queries that the detector of stuck jobs reads, made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.diagnosis.answer_schema import answer_schema

AT_NS = 10**18
"""When ranks were looked at; they entered their collectives 9 s before."""
SINCE_NS = AT_NS - 9 * 10**9

_ENTERED = answer_schema(
    "rank INTEGER, group_id BIGINT, seq BIGINT, op VARCHAR, dtype VARCHAR, num_bytes BIGINT, "
    "peer INTEGER, tag INTEGER, enqueue_ns BIGINT, state VARCHAR, source VARCHAR, "
    "stack VARCHAR"
)
_LOOKS = answer_schema(
    "rank INTEGER, host VARCHAR, step BIGINT, ts_ns BIGINT, pid BIGINT, process VARCHAR, "
    "phase VARCHAR, "
    "beat_age_ms DOUBLE, quiet_ms DOUBLE, longest_ms DOUBLE, call VARCHAR, "
    "num_entered BIGINT, stack VARCHAR, threads VARCHAR, "
    "since_ms DOUBLE, cpu_ms DOUBLE, io_bytes BIGINT, still_ms DOUBLE, "
    "earlier_stack VARCHAR, earlier_process VARCHAR, source VARCHAR, has_moved BOOLEAN"
)
_SIGNS = answer_schema(
    "rank INTEGER, host VARCHAR, last_ns BIGINT, status VARCHAR, error VARCHAR, "
    "last_step BIGINT, is_lost BOOLEAN, lost_text VARCHAR"
)
_GROUPS = answer_schema("group_id BIGINT, name VARCHAR, axis VARCHAR, ranks INTEGER[]")
_PLACES = answer_schema(
    "rank INTEGER, host VARCHAR, device VARCHAR, world_size INTEGER, pp INTEGER, dp INTEGER, "
    "tp INTEGER"
)

IN_ALL_REDUCE = (
    "wait trace_hooks/sources/communication/collectives.py:216\n"
    "all_reduce site-packages/torch/distributed/distributed_c10d.py:3252\n"
    "step job/train.py:40"
)
IN_LOADER = "_try_get_data site-packages/torch/utils/data/dataloader.py:1200\nstep job/train.py:30"
IN_CODE = "prepare job/train.py:12\nstep job/train.py:31"


def entered(rank: int, seq: int, state: str = "entered", **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"group_id": 7, "op": "all_reduce", "dtype": "float32", "num_bytes": 4000}
    row |= {"peer": -1, "tag": -1, "enqueue_ns": SINCE_NS, "source": "ring"}
    return {"rank": rank, "seq": seq, "state": state, **row, **changed}


def look(rank: int, stack: str | None = IN_ALL_REDUCE, **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"host": "node0", "step": 30, "ts_ns": AT_NS, "pid": 4242, "process": "S"}
    row |= {"phase": "step", "beat_age_ms": 400.0, "quiet_ms": 18000.0, "num_entered": 60}
    row |= {"longest_ms": 0.0, "call": "do_poll", "still_ms": 9000.0}
    row |= {"source": "watchdog", "threads": None, "since_ms": 5000.0}
    row |= {"cpu_ms": 20.0, "io_bytes": 3000}
    row |= {"stack": stack, "earlier_stack": stack, "earlier_process": "S", "has_moved": False}
    return {"rank": rank} | row | changed


def tables(
    rows: list[dict[str, Any]],
    looks: list[dict[str, Any]],
    groups: dict[int, list[int]] | None = None,
    signs: list[dict[str, Any]] | None = None,
) -> dict[str, pa.Table]:
    """Four ranks of one host in one group (7), unless `groups` says otherwise."""
    groups = groups or {7: [0, 1, 2, 3]}
    ranks = sorted({rank for members in groups.values() for rank in members})
    named = [
        {"group_id": group_id, "name": f"g{group_id}", "axis": "dp", "ranks": members}
        for group_id, members in groups.items()
    ]
    last = {"host": "node0", "last_ns": AT_NS, "status": None, "error": None, "last_step": 29}
    known = {one["rank"]: one for one in signs or ()}
    all_signs = [{"rank": r, **last, "is_lost": False, **known.get(r, {})} for r in ranks]
    places = [
        {"rank": r, "host": "node0", "world_size": len(ranks), "pp": 0, "dp": r, "tp": 0}
        for r in ranks
    ]
    return {
        "entered_collectives": pa.Table.from_pylist(rows, _ENTERED),
        "rank_looks": pa.Table.from_pylist(looks, _LOOKS),
        "last_signs": pa.Table.from_pylist(all_signs if looks else [], _SIGNS),
        "groups": pa.Table.from_pylist(named, _GROUPS),
        "rank_places": pa.Table.from_pylist(places, _PLACES),
    }
