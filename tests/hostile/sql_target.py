"""The free SQL under attack, behind one small interface: the only module that knows its code.

What is attacked is given a run folder and the layers that are on, executes texts, and answers each
with an Outcome. Today there is one implementation, which has no layers to choose from.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from ingest.errors import UserError
from ingest.store import open_run

LAYERS = ("tree", "connection", "kernel")
"""Allow-list over the tree of the statement; a connection that can't write; the kernel's rules."""


@dataclass(frozen=True)
class Limits:
    """What the target says one statement may take."""

    seconds: float
    memory_bytes: int
    """Of the process that computes."""
    answer_bytes: int
    """By which the process that asked may grow."""


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


class _RunSql:
    """`ingest.store.Run.sql`: in this process, with a time limit, on a connection shared by all."""

    limits = Limits(2.0, 2 << 30, 2 << 30)

    def __init__(self, run_folder: Path) -> None:
        self._run = open_run(run_folder)

    def execute(self, text: str) -> pa.Table:
        return self._run.sql(text, limit_s=self.limits.seconds)

    def close(self) -> None:
        self._run.close()


class _SqlProcess:
    """`ingest.free_sql`: a process of its own for each statement."""

    limits = Limits(2.0, 1 << 30, 256 << 20)

    def __init__(self, run_folder: Path, layers: frozenset[str]) -> None:
        from ingest.free_sql.processes import SqlProcess  # type: ignore[import-not-found]

        self._process: Any = SqlProcess(run_folder, layers=set(layers))

    def execute(self, text: str) -> pa.Table:
        found: pa.Table = self._process.execute(text)
        return found

    def close(self) -> None:
        self._process.close()


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


_STOPPED = re.compile(r"took longer than|was interrupted|was stopped|more memory than|too much")
"""In sentences about limits; all other refusals are about the text."""


class Target:
    """Free SQL over one run; without any layer it is DuckDB as it is."""

    def __init__(self, run_folder: Path, layers: frozenset[str] = frozenset(LAYERS)) -> None:
        self._engine: Engine
        if not layers:
            self._engine = _Unprotected(run_folder)
        elif has_layers():
            self._engine = _SqlProcess(run_folder, layers)
        else:
            self._engine = _RunSql(run_folder)
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


def has_layers() -> bool:
    """Whether the engine has layers that can be switched on one by one."""
    return importlib.util.find_spec("ingest.free_sql") is not None
