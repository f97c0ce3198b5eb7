"""A connection that shows one snapshot of a run to SQL of strangers and can write nowhere.

All files are reached as `run://NAME` through run_file_system, which opens the run's own files for
reading and has no others. The operating system's files are switched off, so no path of the machine
is seen.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from ingest.cpu_count import num_cores
from ingest.free_sql.run_file_system import SCHEME, RunFiles
from ingest.query.connection import (
    INDEX_TABLES,
    INDEX_VIEWS,
    Config,
    Connection,
    Database,
    empty_file,
    quoted,
)
from ingest.query.manifest import Manifest
from ingest.query.query_errors import sentence
from ingest.run_folder.run_paths import data_file
from trace_hooks.schema import CONTENT_TABLES, TABLES

SHARE_OF_MEMORY = 10
"""Percent of the machine's memory that DuckDB gives one statement. The server runs four of pages at
once and sends four CSV files meanwhile (app.web.request_queue.AT_ONCE): together four fifths of it.
The rest is for the server, for the process ready in each holder, and for the up to eight of a run
that wait for their session; those have answered cheap statements only. The kernel bounds addresses,
by kernel.limit_memory: the same share and 512 MiB beyond what the process begins with.
"""
NUM_THREADS = max(1, num_cores() // 2)
ONE_THREAD: Config = {"threads": 1, "async_threads": 0}
"""A process with more threads could not be forked."""


def memory_bytes() -> int:
    """What one statement may take."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return machine * SHARE_OF_MEMORY // 100


def tables(with_content: bool) -> list[str]:
    """The raw tables that SQL may name."""
    return [name for name in TABLES if with_content or name not in CONTENT_TABLES]


class RunDatabase:
    """The newest snapshot of a run and its raw tables, for SQL of strangers.

    For a process that is forked for each statement. `is_closed_off` False is for tests that show
    that the other layers suffice. Opening it reads what the kernel reports of the machine; showing
    a snapshot reads nothing but files of the run.
    """

    def __init__(self, run_folder: Path, with_content: bool, is_closed_off: bool = True) -> None:
        self._run_folder = run_folder
        self._is_closed_off = is_closed_off
        self._tables = tables(with_content)
        self.num_shown = 0
        self._files = RunFiles({})
        self._database = Database({"memory_limit": f"{SHARE_OF_MEMORY}%"} | ONE_THREAD)
        connection = self._database.connection
        connection.register_filesystem(self._files)
        if is_closed_off:
            connection.execute(f"SET allowed_directories = ['{_address('')}']")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET disabled_filesystems = 'LocalFileSystem'")

    @property
    def table_names(self) -> list[str]:
        """What SQL may name."""
        return [*self._tables, *INDEX_TABLES, *INDEX_VIEWS]

    def show(self, snapshot: Path) -> None:
        """Show this snapshot from now on; raises duckdb.Error."""
        self.num_shown += 1
        name = f"index-{self.num_shown}"
        # ingest.query.snapshot makes the empty ones next to the snapshot
        empty = {empty_file(table): snapshot.parent / empty_file(table) for table in self._tables}
        files = {name: snapshot} | empty
        self._files.replace(files)
        number = self._database.show(_address(name))
        shown = {}
        with self._database.cursor() as cursor:
            for table in self._tables:
                picked = Manifest(cursor).pick(table)
                files |= {p: data_file(self._run_folder, snapshot.parent, p) for p in picked}
                whole = self._database.with_all_columns(picked, empty_file(table))
                shown[table] = [_address(path) for path in whole]
        self._files.replace(files)
        for table, addresses in shown.items():
            try:
                self._database.show_files({table: addresses}, number)
            except duckdb.Error as error:  # a file of it is damaged or gone: the others answer
                self._show_problem(table, sentence(error).removeprefix("SQL: "))

    def _show_problem(self, table: str, problem: str) -> None:
        """Make a view with the table's columns that raises the problem, whatever reads it:
        each column does, and so do its rows where no column is named.
        """
        raised = f"error({quoted(f'{table} cannot be read: {problem}')})"
        connection = self._database.connection
        rows = connection.execute(f"DESCRIBE FROM rows_of([{quoted(_address(empty_file(table)))}])")
        columns = ", ".join(f"{raised}::{kind} AS {name}" for name, kind, *_ in rows.fetchall())
        connection.execute(
            f"CREATE OR REPLACE VIEW {table} AS SELECT {columns} WHERE {raised} IS NULL"
        )

    def for_statement(self) -> Connection:
        """The connection on which the one statement runs, in the process made for it."""
        connection = self._database.connection.cursor()
        connection.execute(f"SET threads = {NUM_THREADS}")
        if self._is_closed_off:
            connection.execute("SET lock_configuration = true")
            connection.execute("BEGIN TRANSACTION READ ONLY")
        return connection


def _address(name: str) -> str:
    return f"{SCHEME}://{name}"
