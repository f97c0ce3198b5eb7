"""What a column and a table are, and short names for the columns that tables are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from trace_hooks.schema.version import VERSION_BYTES

INT = pa.int64()
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Column:
    """One column: name, Arrow type, unit or meaning; nullable ones came with a schema minor."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One table: its name, what one row is, its columns in file order."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema with table name and schema version in its metadata."""
        fields = [pa.field(c.name, c.type, c.nullable) for c in self.columns]
        metadata = {b"rankscope.table": self.name.encode(), b"rankscope.schema": VERSION_BYTES}
        return pa.schema(fields, metadata=metadata)


WHERE = (
    Column("attempt", pa.int16(), "start of the job this row belongs to, from 0"),
    Column("rank", pa.int32(), "global rank"),
    Column("step", INT, "optimizer step; -1 before the first"),
)


def table(name: str, doc: str, *columns: Column) -> Table:
    """A table whose rows begin with attempt, rank and step (WHERE)."""
    return Table(name, doc, WHERE + columns)


def integer(name: str, doc: str) -> Column:
    """A column of int64."""
    return Column(name, INT, doc)


def optional_integer(name: str, doc: str) -> Column:
    """A column of int64 that a row may lack."""
    return Column(name, INT, doc, nullable=True)


def text(name: str, doc: str) -> Column:
    """A column of words that repeat."""
    return Column(name, TEXT, doc)


def optional_text(name: str, doc: str) -> Column:
    """A column of text that a row may lack."""
    return Column(name, TEXT, doc, nullable=True)


def optional_float(name: str, doc: str) -> Column:
    """A column of float64 that a row may lack."""
    return Column(name, pa.float64(), doc, nullable=True)


TS = integer("ts_ns", "Unix ns on the rank's clock")

PART_OF_STEP = (
    Column("microbatch", pa.int32(), "micro-batch; -1 none"),
    Column("chunk", pa.int32(), "virtual stage (global stage index); -1 none"),
)
LAYER = Column("layer", pa.int32(), "layer of the whole model, from 0; -1 not in a layer")
