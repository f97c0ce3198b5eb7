"""Answers in portions that the reader can hold, also as Python values.

A row of Arrow can be far smaller than what is made of it: a list of NULLs takes no byte there, and
an ENUM holds its text once for all rows. So a portion is measured by what it becomes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import UserError

MOST_BYTES = 32 << 20
"""Of one portion, as values of Python; a row that takes more is refused."""
_MOST_OF_SCHEMA = 4 << 20
"""Of the names and types of the columns, as Arrow sends them: some 30,000 columns."""
_VALUE_BYTES = 64
"""Of a number, of an empty text, or of a list less what is in it."""


def check_schema(schema: pa.Schema) -> None:
    """Raise UserError for more columns, or longer names, than an answer may have."""
    if schema.serialize().size > _MOST_OF_SCHEMA:
        raise UserError(
            f"SQL: the names of the {len(schema)} columns of the answer are too long together; "
            "select fewer, or give them shorter names"
        )


def portions(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts of at most MOST_BYTES; raises UserError where one row takes more, or the
    values of all ENUMs, which Arrow sends whole for each column whatever the rows use.
    """
    if sum(map(_dictionary_bytes, batch.columns)) > MOST_BYTES:
        raise UserError(
            f"SQL: the values of the answer's ENUMs take more than {MOST_BYTES >> 20} MB over all "
            "of its columns; select fewer columns, or cast them to VARCHAR"
        )
    yield from _halves(batch)


def _halves(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if sum(map(_bytes_of, batch.columns)) <= MOST_BYTES:
        yield batch
        return
    if batch.num_rows == 1:
        raise UserError(
            f"SQL: a row of the answer takes more than {MOST_BYTES >> 20} MB; select shorter "
            "texts or lists"
        )
    half = batch.num_rows // 2
    yield from _halves(batch.slice(0, half))
    yield from _halves(batch.slice(half))


def _dictionary_bytes(values: pa.Array) -> int:
    """Of the values of the ENUMs in a column, at any depth."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _dictionary_bytes(values.storage)
    if pa.types.is_dictionary(kind):
        return len(values.dictionary) * _VALUE_BYTES + int(values.dictionary.nbytes)
    return sum(map(_dictionary_bytes, _children(values)))


def _children(values: pa.Array) -> list[pa.Array]:
    """The arrays a nested array is made of, without copies; empty for one that is not nested."""
    kind = values.type
    if pa.types.is_map(kind):
        return [values.keys, values.items]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [values.values]
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return [values.field(i) for i in range(kind.num_fields)]
    return []


def _bytes_of(values: pa.Array) -> int:
    """About what it takes as a list of Python's values."""
    kind = values.type
    own = len(values) * _VALUE_BYTES
    if isinstance(values, pa.ExtensionArray):
        return _bytes_of(values.storage)
    if pa.types.is_dictionary(kind):
        return own + _bytes_by_index(values)
    if pa.types.is_map(kind):
        begin, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        inside = [values.keys.slice(begin, end - begin), values.items.slice(begin, end - begin)]
        return own + sum(map(_bytes_of, inside))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return own + _bytes_of(values.flatten())
    if pa.types.is_struct(kind):
        names = sum(len(field.name) for field in kind)
        return own + len(values) * names + sum(map(_bytes_of, values.flatten()))
    if pa.types.is_union(kind):
        return own + sum(_bytes_of(values.field(i)) for i in range(kind.num_fields))
    return own + int(values.nbytes)


def _bytes_by_index(values: pa.DictionaryArray) -> int:
    """Of a text once for each row that has it."""
    lengths = pc.binary_length(values.dictionary).cast(pa.int64())
    return int(pc.sum(lengths.take(values.indices)).as_py() or 0)
