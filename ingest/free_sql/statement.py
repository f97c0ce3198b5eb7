"""What the process of a statement does: it waits for the text, runs it, sends rows, and ends."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa

from ingest.errors import UserError
from ingest.free_sql import kernel, wire
from ingest.free_sql.allow_list import check_text, check_tree, functions
from ingest.free_sql.connection import NUM_THREADS, ONE_THREAD, RunDatabase, memory_bytes
from ingest.free_sql.portions import check_schema, portions
from ingest.query.connection import SHARED_SQL, Connection
from ingest.query.index_catalog import own_catalog
from ingest.query.index_sql import index_sql
from ingest.query.query_errors import sentence

_BATCH_ROWS = 8192
_BUFFER_BYTES = 1 << 18
_FAILURES = (duckdb.Error, pa.ArrowException, MemoryError, OSError, RuntimeError, ValueError)
"""What DuckDB and Arrow raise for a statement that fails; ValueError: a kind they cannot name."""
_TREE = "SELECT json_serialize_sql($text::VARCHAR)"
_REHEARSAL = "SELECT 1 AS number, 'a' AS text"
_SPARE_S = 5
"""Time that the kernel gives beyond the limit, after which it ends the process."""
_MOST_STATEMENTS = 50
_MOST_CPU_S = 2.0
"""A process that has done more than this takes no further statement."""
_IDLE_S = 120.0
"""After this long without a further statement the process ends."""


def run_statements(
    file: int, database: RunDatabase, layers: frozenset[str], taken_bytes: int
) -> None:
    """Get ready, wait for a statement at the socket `file`, answer it there, end the process.

    A cheap SELECT that passed the tree check may be followed by others of its session.
    `taken_bytes`: addresses that the process has when it begins.
    """
    try:
        if "kernel" in layers:
            kernel.limit_memory(taken_bytes, memory_bytes())
        connection = database.for_statement()
        _rehearse(connection)
        filters = kernel.prepared_filter()
        request = wire.read_message(partial(os.read, file))
        if "kernel" in layers:
            if request["limit_s"] is not None:
                kernel.limit_time((request["limit_s"] + _SPARE_S) * NUM_THREADS)
            filters()
        for number in range(1, _MOST_STATEMENTS + 1):
            may_reuse = _answer(file, connection, request, database.table_names, "tree" in layers)
            may_follow = may_reuse and number < _MOST_STATEMENTS and _cpu_s() < _MOST_CPU_S
            wire.write_frame(file, wire.END, wire.REUSABLE if may_follow else b"")
            if not may_follow:
                break
            signal.setitimer(signal.ITIMER_REAL, _IDLE_S)
            request = wire.read_message(partial(os.read, file))
    except (wire.Ended, BrokenPipeError, ConnectionResetError):  # its caller has left
        pass
    finally:
        if sys.exception() is not None:  # a bug, for the server's output
            traceback.print_exc()
        os._exit(0)


def _cpu_s() -> float:
    return sum(os.times()[:2])


def rehearse() -> None:
    """Load all that a statement needs, while files may still be opened."""
    functions()
    own_catalog()
    for name in SHARED_SQL:
        index_sql(name)
    with duckdb.connect(":memory:", config=ONE_THREAD) as connection:
        _rehearse(connection)


def _rehearse(connection: Connection) -> None:
    """Go through all that a statement goes through, so that it is in memory when one comes."""
    connection.execute(_TREE, {"text": _REHEARSAL}).fetchall()
    reader = connection.sql(_REHEARSAL).to_arrow_reader(_BATCH_ROWS)
    check_schema(reader.schema)
    for portion in chain.from_iterable(map(portions, reader)):
        _packed(portion)


def _packed(batch: pa.RecordBatch) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, batch.schema) as stream:
        stream.write_batch(batch)
    return file.getvalue()


def _answer(
    file: int, connection: Connection, request: dict[str, Any], names: list[str], is_checked: bool
) -> bool:
    """Send the rows of a statement, or what is wrong; whether it was a SELECT that went well."""
    limit_s = request["limit_s"]
    if limit_s is not None:
        signal.setitimer(signal.ITIMER_REAL, limit_s + _SPARE_S)  # its signal ends the process
    try:
        with _as_sentences():
            _send_rows(file, connection, request["text"], names, is_checked)
    except UserError as error:
        wire.write_frame(file, wire.ERROR, str(error).encode(errors="replace"))
        return False
    return is_checked


def _send_rows(
    file: int, connection: Connection, text: str, names: list[str], is_checked: bool
) -> None:
    reader = _checked(connection, text, names) if is_checked else _unchecked(connection, text)
    if reader is None:
        raise UserError("SQL: give exactly one SELECT; nothing else is possible here")
    check_schema(reader.schema)
    frames = io.BufferedWriter(_FrameWriter(file), _BUFFER_BYTES)
    with pa.ipc.new_stream(frames, reader.schema) as stream:
        for portion in chain.from_iterable(map(portions, reader)):
            stream.write_batch(portion)
            frames.flush()
    frames.flush()


def _checked(connection: Connection, text: str, names: list[str]) -> pa.RecordBatchReader | None:
    """Rows of a text whose tree holds listed parts only; None for no statement."""
    check_text(text)
    [[serialized]] = connection.execute(_TREE, {"text": text}).fetchall()
    try:
        check_tree(serialized, names)
    except UserError:
        connection.extract_statements(
            text
        )  # where it is not SQL at all, DuckDB reports the position
        raise
    relation = connection.sql(text)
    return None if relation is None else relation.to_arrow_reader(_BATCH_ROWS)


def _unchecked(connection: Connection, text: str) -> pa.RecordBatchReader | None:
    """Rows of any text; None for no statement. Only tests leave the tree out."""
    with warnings.catch_warnings(action="ignore"):  # of an extra copy of the rows
        executed = connection.execute(text)
        return None if executed is None else executed.to_arrow_reader(_BATCH_ROWS)


@contextmanager
def _as_sentences() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            raise
        raise UserError(sentence(error)) from error


class _FrameWriter(io.RawIOBase):
    """A file that sends what is written to it as frames, in pieces worth a call."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, content: Any) -> int:
        """Send it."""
        piece = memoryview(content)
        if piece.nbytes:
            wire.write_frame(self._file, wire.DATA, piece.cast("B"))
        return piece.nbytes
