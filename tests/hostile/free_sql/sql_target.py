"""The free SQL under attack, behind one small interface: the only module that knows its code.

What is attacked is given a run folder and the layers that are on, executes texts, and answers each
with an Outcome.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa

from ingest.errors import UserError
from ingest.free_sql.connection import memory_bytes
from ingest.free_sql.sql_process import SqlProcess
from ingest.run import open_run

LAYERS = ("tree", "connection", "kernel")
"""Allow-list over the tree of the statement; a connection that can't write; the kernel's rules."""


@dataclass(frozen=True)
class Limits:
    """What one statement may take."""

    seconds: float
    memory_bytes: int
    """Of the process that computes."""
    answer_bytes: int
    """By which the asking process may grow."""


@dataclass(frozen=True)
class Outcome:
    """How one statement ended: rows | refused | stopped | crashed."""

    kind: str
    message: str = ""
    num_rows: int = 0
    table: pa.Table | None = None


class Engine(Protocol):
    """What can be attacked."""

    limits: Limits

    def execute(self, text: str) -> pa.Table:
        """Rows of the statement; raises UserError."""

    def close(self) -> None:
        """Give back what it holds."""


_KEPT_BYTES = 64 << 20
"""Of an answer, looked through for what must not be in it."""


class _SqlProcess:
    """`ingest.free_sql`: a process of its own for each statement."""

    limits = Limits(2.0, memory_bytes() + (1 << 29), 256 << 20)

    def __init__(self, run_folder: Path, layers: frozenset[str]) -> None:
        self._run = open_run(run_folder)
        index = self._run.snapshot.path.parent
        self._process = SqlProcess(run_folder, index, layers=layers)
        self._process.get_ready(self._run.snapshot.path)  # the limit of the first one covers it

    def execute(self, text: str) -> pa.Table:
        """Rows of a statement."""
        path = self._run.snapshot.path
        with self._process.reading(text, path, self.limits.seconds, session="one") as reader:
            return _first(reader, _KEPT_BYTES)

    def close(self) -> None:
        """End its processes."""
        self._process.close()
        self._run.close()


class _Unprotected:
    """DuckDB as it is, which lets through everything: proof that the checks would notice."""

    limits = Limits(1.0, 1 << 30, 1 << 30)

    def __init__(self, run_folder: Path) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("CREATE TABLE device_peaks AS SELECT 'a' AS pattern")
        marks = run_folder / "segments" / "marks-*.parquet"
        self._connection.execute(f"CREATE VIEW marks AS FROM '{marks}'")

    def execute(self, text: str) -> pa.Table:
        try:
            return self._connection.sql(text or "SELECT 1").to_arrow_table()
        except (duckdb.Error, AttributeError) as error:  # AttributeError: it gives no rows
            raise UserError(str(error)) from error

    def close(self) -> None:
        self._connection.close()


def _first(reader: pa.RecordBatchReader, max_bytes: int) -> pa.Table:
    """What a reader gives, to its end; of it the first `max_bytes` are kept, as a page does."""
    kept: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in reader:
        if num_bytes < max_bytes:
            kept.append(batch)
            num_bytes += batch.nbytes
    return pa.Table.from_batches(kept, reader.schema)


_STOPPED = re.compile(r"took longer than|was interrupted|was stopped|more memory than|too much")
"""In sentences about limits; all other refusals are about the text."""


class Target:
    """Free SQL over one run; without any layer it is DuckDB as it is."""

    def __init__(self, run_folder: Path, layers: frozenset[str] = frozenset(LAYERS)) -> None:
        self._engine: Engine
        if not layers:
            self._engine = _Unprotected(run_folder)
        else:
            self._engine = _SqlProcess(run_folder, layers)
        self.limits = self._engine.limits

    def execute(self, text: str) -> Outcome:
        """How the statement ends; whatever is raised but UserError is a crash."""
        try:
            table = self._engine.execute(text)
        except UserError as error:
            kind = "stopped" if _STOPPED.search(str(error)) else "refused"
            return Outcome(kind, str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - to be reported, whatever it is
            return Outcome("crashed", f"{type(error).__name__}: {error}")
        return Outcome("rows", "", table.num_rows, table)

    def close(self) -> None:
        """Give back what the engine holds."""
        self._engine.close()
