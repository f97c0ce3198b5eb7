"""Columns and tables as Arrow schemas."""

from __future__ import annotations

import pyarrow as pa

from trace_hooks.schema import VERSION_BYTES
from trace_hooks.schema.columns import integer, optional_float, table, text


def test_a_table_knows_its_name_and_version() -> None:
    made = table("things", "one thing", integer("size_ns", ""), text("kind", ""))
    assert made.schema.names == ["attempt", "rank", "step", "size_ns", "kind"]
    assert made.schema.metadata == {
        b"rankscope.table": b"things",
        b"rankscope.schema": VERSION_BYTES,
    }


def test_only_optional_columns_are_nullable() -> None:
    schema = table("things", "", integer("a", ""), optional_float("b", "")).schema
    assert not schema.field("a").nullable
    assert schema.field("b").nullable
    assert schema.field("b").type == pa.float64()
