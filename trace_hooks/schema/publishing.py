"""Writes files atomically: whole under a temporary name, then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trace_hooks.schema.tables import column_encodings, dictionary_columns


def publish_table(rows: pa.Table, path: Path, row_group_size: int | None = None) -> int:
    """Write a table atomically; returns its bytes.

    `rows` must have the schema of the table that its metadata names. Snappy: after dictionaries and
    deltas zstd would save 1 to 4 % of a recorded run, for 30 to 60 % more CPU time of a rank.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # a link there would be written through
    try:
        _write(rows, temporary, row_group_size)
        num_bytes = temporary.stat().st_size
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return num_bytes


def parquet_bytes(rows: pa.Table) -> pa.Buffer:
    """A table as the content of a file that `publish_table` would write."""
    sink = pa.BufferOutputStream()
    _write(rows, sink)
    return sink.getvalue()


def _write(rows: pa.Table, where: Any, row_group_size: int | None = None) -> None:
    name = (rows.schema.metadata or {})[b"rankscope.table"].decode()
    pq.write_table(
        rows,
        where,
        row_group_size=row_group_size,
        compression="snappy",
        use_dictionary=dictionary_columns(name),
        column_encoding=column_encodings(name),
    )


def publish_json(data: Any, path: Path) -> None:
    """Write a JSON file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # a link there would be written through
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
