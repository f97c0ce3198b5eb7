"""Many files of one table as one, sorted by (rank, time), with the rows of one rank in memory.

A merged file can have millions of rows, and the server merges them: the memory it takes must not
grow with the run. Merged files are sorted by rank, so that they can be read a row group at a time.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.query.manifest import MERGED_FROM, SPAN_OF_TIME
from trace_hooks.schema import TABLES, VERSION_BYTES, column_encodings, dictionary_columns

ROW_GROUP = 16_384
"""Rows from which a row group ends with its rank."""

Kept = Callable[[pa.Table], pa.Table]
"""Some of the rows of a table."""
Check = Callable[[], None]
"""Raises where something must not be done."""

_TIME = {table: (plan[0][-1] if plan else None) for table, plan in SPAN_OF_TIME.items()}


@dataclass(frozen=True)
class Merge:
    """One file to be made of several; arguments of publish_merged."""

    table: str
    paths: list[Path]
    merged: Path
    inputs: list[str]


def publish_merged(
    table: str,
    paths: list[Path],
    merged: Path,
    inputs: list[str],
    kept: Kept | None = None,
    require_owner: Check = lambda: None,
) -> None:
    """Write the rows of `paths` whole, row groups ending with their rank, then rename it.

    `inputs`: the files it replaces, noted in its metadata; `kept`: those of their rows that stay,
    all where it is not given. Raises OSError and pa.ArrowException, both where a file is damaged
    and where the disk is full, and what `require_owner` raises, which is asked before the rename;
    nothing is left behind then.
    """
    schema = TABLES[table].schema
    metadata = {
        b"rankscope.table": table.encode(),
        b"rankscope.schema": VERSION_BYTES,
        MERGED_FROM: "\n".join(inputs).encode(),
    }
    temporary = merged.with_name(f".{merged.name}.{os.getpid()}.tmp")
    try:
        with pq.ParquetWriter(
            temporary,
            schema.with_metadata(metadata),
            compression="zstd",
            compression_level=3,
            use_dictionary=dictionary_columns(table),
            column_encoding=column_encodings(table),
        ) as writer:
            ranks = merged_rows(table, paths)
            for rows in _row_groups(map(kept, ranks) if kept else ranks):
                writer.write_table(rows)
        require_owner()
        temporary.replace(merged)
    finally:
        temporary.unlink(missing_ok=True)


def merged_rows(table: str, paths: Iterable[Path]) -> Iterator[pa.Table]:
    """All rows of the files, a table for each rank, ranks ascending, each sorted by time.

    Of merged files a row group each is in memory; all segments among them are, which are small.
    """
    time_column = _TIME.get(table, "ts_ns")
    by_time = [] if time_column is None else [(time_column, "ascending")]
    with ExitStack() as opened:
        sorted_pieces: list[Iterator[tuple[int, pa.Table]]] = []
        segments: list[pa.Table] = []
        for path in paths:
            file = opened.enter_context(pq.ParquetFile(path))
            if MERGED_FROM in (file.metadata.metadata or {}):
                sorted_pieces.append(_by_rank(_of_schema(table, part) for part in _parts(file)))
            else:
                segments.append(_of_schema(table, file.read(use_threads=False)))
                file.close()
        if segments:
            rows = pa.concat_tables(segments).unify_dictionaries()
            rows = rows.take(pc.sort_indices(rows, sort_keys=[("rank", "ascending"), *by_time]))
            sorted_pieces.append(_by_rank([rows]))
            if len(sorted_pieces) == 1:  # of segments alone all is sorted
                yield from (of_rank for _, of_rank in sorted_pieces[0])
                return
        pieces = heapq.merge(*sorted_pieces, key=lambda one: one[0])
        for _, of_rank in groupby(pieces, key=lambda one: one[0]):
            rows = pa.concat_tables([piece for _, piece in of_rank]).unify_dictionaries()
            if by_time:
                rows = rows.take(pc.sort_indices(rows, sort_keys=by_time))
            yield rows


def _parts(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """Row groups of a merged file, one at a time in memory."""
    return (file.read_row_group(number) for number in range(file.num_row_groups))


def _by_rank(parts: Iterable[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    """Pieces (rank, rows) of tables whose ranks ascend."""
    for rows in parts:
        begin = 0
        ends = pc.run_end_encode(rows.column("rank").combine_chunks())
        ends = (ends.chunk(0) if isinstance(ends, pa.ChunkedArray) else ends).run_ends.to_pylist()
        for end in ends if rows.num_rows else ():
            yield rows.column("rank")[begin].as_py(), rows.slice(begin, end - begin)
            begin = end


def _of_schema(table: str, part: pa.Table) -> pa.Table:
    """With the columns of today's schema; those that an older minor lacks are NULL. Raises
    pa.ArrowInvalid for a value that its column cannot have.
    """
    schema = TABLES[table].schema
    for column in TABLES[table].columns:
        if column.name not in part.column_names:
            part = part.append_column(column.name, pa.nulls(part.num_rows, column.type))
    try:
        return part.select(schema.names).cast(schema)
    except ValueError as error:  # of pyarrow itself where a column must not be NULL
        raise pa.ArrowInvalid(str(error)) from None


def _row_groups(ranks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables of at least ROW_GROUP rows that end where a rank does."""
    held: list[pa.Table] = []
    num_rows = 0
    for rows in ranks:
        held.append(rows)
        num_rows += rows.num_rows
        if num_rows >= ROW_GROUP:
            yield _one_group(held)
            held, num_rows = [], 0
    if held:
        yield _one_group(held)


def _one_group(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
