"""Columns of the answers that detectors read, as SQL names their types."""

import pyarrow as pa

_TYPES = {
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "INTEGER": pa.int32(),
    "INTEGER[]": pa.list_(pa.int32()),
    "VARCHAR": pa.string(),
}


def answer_schema(columns: str) -> pa.Schema:
    """The schema of an answer with these columns: "rank INTEGER, late_ms DOUBLE"."""
    return pa.schema([(name, _TYPES[sql]) for name, sql in map(str.split, columns.split(","))])
