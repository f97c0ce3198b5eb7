"""What a trace shows in addition to spans: memory as counters, marks as instants, each with its
row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ingest.exports.tables import Clocks, table_batches
from ingest.exports.window import Window, microseconds
from ingest.run import Run

MORE_TABLES = ("memory", "marks")
ROW_EVENT = "rankscope_row"
"""Metadata event whose args are a row: what a picture shows of it is not all there is."""
_SERIES = ("allocated", "reserved", "rss")
_encode = msgspec.json.encode


def counters_and_marks(
    run: Run, window: Window, shifts: Mapping[int, int], t0_ns: int
) -> Iterator[bytes]:
    """Events of every row of memory and marks in the window, in the order of the files.

    `shifts` is what is added to the times of each step; ts counts from `t0_ns`, from 0 on.
    """
    clocks = Clocks(run)
    for table in MORE_TABLES:
        for rows in table_batches(run, table, window):
            aligned = clocks.aligned(rows, rows["ts_ns"].to_numpy()) - t0_ns
            for row, at_ns in zip(rows.to_pylist(), aligned.tolist(), strict=True):
                shown_ns = max(at_ns + shifts.get(row["step"], 0), 0)
                yield _picture(table, row, microseconds(shown_ns))
                yield _metadata(table, row)


def _metadata(table: str, row: dict[str, Any]) -> bytes:
    args = {name: value for name, value in row.items() if name not in ("attempt", "rank")}
    event = {"ph": "M", "pid": row["rank"], "tid": 0, "name": ROW_EVENT}
    return _encode({**event, "args": {"table": table, **args}})


def _picture(table: str, row: dict[str, Any], ts_us: bytes) -> bytes:
    event: dict[str, Any] = {"pid": row["rank"], "tid": 0, "ts": msgspec.Raw(ts_us)}
    if table == "memory":
        held = {name: row[name] for name in _SERIES if row[name] >= 0}
        return _encode({"ph": "C", **event, "cat": table, "name": table, "args": held})
    details = {"kind": row["kind"], "step": row["step"]}
    return _encode(
        {"ph": "i", "s": "p", **event, "cat": table, "name": row["text"], "args": details}
    )
