"""Checks that a received file is a segment: Parquet of our schema, of one rank and attempt.

Runs as a separate process (app.live.segment_check_processes), because it decodes untrusted bytes::

    python -m app.live.segment_check BYTES     of memory for decoding a file
    {"path": PATH, "name": NAME OF THE SEGMENT, "seconds": OF CPU TIME}
        -> {"problem": SENTENCE, '' if it is valid}, {"failed": WHY} if it cannot be read

It reads the sizes from the footer before it decodes anything. A footer may be false, so it then
decodes the whole file within the process's memory limit and compares it with the footer.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_hooks.schema import SCHEMA_MAJOR, SCHEMA_MINOR, TABLES, SegmentName
from trace_hooks.schema.bounds import beyond_bounds

MOST_ROWS = 1_000_000
MOST_ROW_GROUPS = 64
MOST_DECODED_BYTES = 256 << 20
_LONGEST_FOOTER_TEXT = 8 << 20
_MOST_FOOTER_ITEMS = 200_000
_LABELS = {b"rankscope.table", b"rankscope.schema"}
_MUST_HAVE_STATISTICS = ("attempt", "rank", "step")
_MAY_BE_OF_HOST = ("host_metrics", "log_lines")
"""Tables whose rows may be of the host that a rank runs on (rank -1): its watchdog sends them."""
_LONGEST = 300


class Unfit(Exception):
    """The file is not a segment; the text is the end of a sentence about it."""


def problem_of(path: Path, name: SegmentName) -> str:
    """What is wrong with a file that should be this segment, in one sentence; '' if nothing.

    Raises OSError if the disk fails, which says nothing about the file.
    """
    try:
        _check(path, name)
    except MemoryError:  # also pyarrow's
        return _about(name, "needs more memory to decode than a segment may use")
    except Unfit as error:
        return _about(name, str(error))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if (
            isinstance(error, OSError) and error.errno is not None
        ):  # without errno: pyarrow's, about the bytes
            raise
        return _about(name, f"cannot be read as Parquet ({' '.join(str(error).split())})")
    return ""


def _about(name: SegmentName, what: str) -> str:
    return f"{name}, sent by rank {name.rank}, {what[:_LONGEST]}"


def _check(path: Path, name: SegmentName) -> None:
    with pq.ParquetFile(
        path,
        thrift_string_size_limit=_LONGEST_FOOTER_TEXT,
        thrift_container_size_limit=_MOST_FOOTER_ITEMS,
        page_checksum_verification=False,
    ) as file:
        _check_sizes(file.metadata)
        _check_schema(file.schema_arrow, name)
        rows = file.read(use_threads=False)
        _check_rows(rows, file.metadata, name)


def _check_sizes(footer: pq.FileMetaData) -> None:
    groups = [footer.row_group(number) for number in range(min(footer.num_row_groups, 1_000))]
    num_bytes = sum(group.total_byte_size for group in groups)
    for what, number, most in (
        ("rows", footer.num_rows, MOST_ROWS),
        ("row groups", footer.num_row_groups, MOST_ROW_GROUPS),
        ("bytes when decompressed", num_bytes, MOST_DECODED_BYTES),
    ):
        if not 0 <= number <= most:
            raise Unfit(f"has {number:,} {what}; a segment has at most {most:,}")


def _check_schema(schema: pa.Schema, name: SegmentName) -> None:
    labels = schema.metadata or {}
    if set(labels) != _LABELS:
        raise Unfit(f"has other labels than {', '.join(sorted(x.decode() for x in _LABELS))}")
    table = labels[b"rankscope.table"].decode("utf-8", "replace")
    if table != name.table:
        raise Unfit(f"holds the table {table[:40]!r}")
    version = labels[b"rankscope.schema"].decode("utf-8", "replace")
    if version.partition(".")[0] != str(SCHEMA_MAJOR):
        raise Unfit(f"has schema {version[:20]!r}; this server reads {SCHEMA_MAJOR}.x")
    minor = version.partition(".")[2]
    _check_columns(schema, name.table, minor.isdecimal() and int(minor[:9]) > SCHEMA_MINOR)


def _check_columns(schema: pa.Schema, table: str, is_newer: bool) -> None:
    """Check for the table's columns, with its types, in its order; nullable ones may be missing.

    A newer minor version may have further columns at the end.
    """
    columns = {column.name: column for column in TABLES[table].columns}
    expected = [
        column.name
        for column in columns.values()
        if column.name in schema.names or not column.nullable
    ]
    more = schema.names[len(expected) :]
    if schema.names[: len(expected)] != expected or any(column in columns for column in more):
        raise Unfit(f"lacks columns of the table {table}, or has others among them")
    if more and not is_newer:
        raise Unfit(f"has a column {more[0][:40]!r}, which the table {table} does not have")
    for field, right in ((schema.field(column), columns[column].type) for column in expected):
        if field.type != right:
            raise Unfit(f"has {field.name} as {str(field.type)[:60]}, not {right}")


def _check_rows(rows: pa.Table, footer: pq.FileMetaData, name: SegmentName) -> None:
    rows.validate(full=True)
    nullable = {column.name for column in TABLES[name.table].columns if column.nullable}
    for field in rows.schema:
        if field.name not in nullable and rows.column(field.name).null_count:
            raise Unfit(f"has no {field.name} in some of its rows")
    for column, claimed in (("attempt", name.attempt), ("rank", name.rank)):
        least, most = _extent(rows, column)
        if column == "rank" and name.table in _MAY_BE_OF_HOST and (least, most) == (-1, -1):
            continue
        if rows.num_rows and (least, most) != (claimed, claimed):
            other = most if least == claimed else least
            raise Unfit(f"has rows of {column} {other}")
    for index, column in enumerate(footer.schema.names):
        if column in rows.column_names and pa.types.is_integer(rows.schema.field(column).type):
            _check_statistics(rows, footer, index, column)
    beyond = beyond_bounds(name.table, partial(_extent, rows)) if rows.num_rows else ""
    if beyond:
        raise Unfit(beyond)


def _check_statistics(rows: pa.Table, footer: pq.FileMetaData, index: int, column: str) -> None:
    """Compare the footer's statistics with the rows: they later decide which queries read the
    file.
    """
    extents = []
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is not None and statistics.has_min_max:
            extents.append((statistics.min, statistics.max))
        elif column in _MUST_HAVE_STATISTICS and rows.num_rows:
            raise Unfit(f"has no statistics of {column}")
    if not extents:
        return
    claimed = min(low for low, _ in extents), max(high for _, high in extents)
    if claimed != _extent(rows, column):
        raise Unfit(f"has statistics of {column} that its rows contradict")


def _extent(rows: pa.Table, column: str) -> tuple[Any, Any]:
    extent = pc.min_max(rows.column(column)).as_py()
    return extent["min"], extent["max"]


def limit_this_process(memory_bytes: int) -> None:
    """Limit memory to what decoding may use; no writing, few files, no core dump."""
    with suppress(OSError, ValueError):  # no memory limit outside Linux
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        bound = pages * os.sysconf("SC_PAGE_SIZE") + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    for kind, bound in (
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 32),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (bound, bound))


def main() -> None:
    """Answer requests until stdin ends."""
    pa.set_cpu_count(1)
    pc.min_max(pa.array([0]))  # loads what the first file would load
    limit_this_process(int(sys.argv[1]))
    for line in sys.stdin:
        order = json.loads(line)
        name = SegmentName.parse(order["name"])
        assert name is not None
        signal.setitimer(signal.ITIMER_PROF, order["seconds"])  # its signal ends the process
        try:
            answer = {"problem": problem_of(Path(order["path"]), name)}
        except OSError as error:
            answer = {"failed": os.strerror(error.errno or 0)}
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        print(json.dumps(answer), flush=True)
        gc.collect(0)


if __name__ == "__main__":
    main()
