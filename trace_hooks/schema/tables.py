"""All tables by name, and how Parquet holds their columns."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from trace_hooks.schema.columns import INT, Table
from trace_hooks.schema.job_tables import JOB_TABLES
from trace_hooks.schema.model_tables import MODEL_TABLES
from trace_hooks.schema.run_tables import RUN_TABLES
from trace_hooks.schema.sum_tables import SUM_TABLES

TABLES: dict[str, Table] = {
    table.name: table for table in RUN_TABLES + SUM_TABLES + JOB_TABLES + MODEL_TABLES
}
CONTENT_TABLES = ("frames",)
"""Tables with values of the model: SQL sees them only where the caller allows it."""


@cache
def column_encodings(table: str) -> dict[str, str]:
    """Parquet encodings of the integer time and sequence columns: an event then takes 6 bytes."""
    return {
        c.name: "DELTA_BINARY_PACKED"
        for c in TABLES[table].columns
        if c.type == INT and (c.name.endswith("_ns") or c.name in ("seq", "coll_seq", "step"))
    }


@cache
def dictionary_columns(table: str) -> list[str]:
    """Columns to write with a Parquet dictionary: all but bytes and what column_encodings names."""
    encoded = column_encodings(table)
    return [
        f"{c.name}.list.element" if pa.types.is_list(c.type) else c.name
        for c in TABLES[table].columns
        if c.name not in encoded and c.type != pa.binary()
    ]
