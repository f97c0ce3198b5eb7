"""The database of one run's index, open for its one writer: connection, manifest, generation.

The indexer, compaction and retention all write through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from ingest.cpu_count import num_cores
from ingest.errors import UserError
from ingest.index.merging import Check
from ingest.index.snapshots import DATABASE
from ingest.query.connection import Config, Connection
from ingest.query.index_catalog import SETUP, require_own
from ingest.query.manifest import Manifest
from ingest.run_folder.run_paths import data_file

MEMORY = "512MB"
"""What DuckDB may hold of a pass before it puts some of it on disk, in the index folder."""

_CONFIG: Config = {
    "default_block_size": "16384",  # many small tables: a tenth of the default's file
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": MEMORY,
    "partitioned_write_flush_threshold": 131_072,  # a quarter of the default's memory
    "threads": max(1, num_cores() // 2),  # the job's ranks compute on this machine, too
}


class IndexDatabase:
    """An open index database. The owner's lock must be held while it is open.

    Raises UserError where it cannot be written; a damaged database is made again, empty.
    `require_owner` raises where another host has taken the index for its own.
    """

    def __init__(
        self, run_folder: Path, index_folder: Path, require_owner: Check = lambda: None
    ) -> None:
        self.run_folder = run_folder
        self.require_owner = require_owner
        self.path = index_folder / DATABASE
        self.known_paths: set[str] = set()
        """data files that are no news: in the manifest, set aside, or merged away"""
        self._identity = ""
        self._open()

    def _open(self) -> bool:
        self.connection = _opened(self.path)
        self.manifest = Manifest(self.connection)
        identity, _, _ = self.state.rpartition(":")
        is_another = identity != self._identity
        if is_another:
            self.known_paths = self.manifest.known_paths()
        self._identity = identity
        return is_another

    def reopen(self) -> bool:
        """Close it and open it again: DuckDB keeps some kB of every query until it is closed.

        Whether it is another one: it was gone or damaged, and nothing is in it. Where this raises
        UserError it can be called again.
        """
        self.connection.close()
        return self._open()

    def close(self) -> None:
        """Close it."""
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block does under a new generation, or nothing of it.

        Raises what the block or the commit raises.
        """
        self.connection.execute("BEGIN")
        try:
            self.connection.execute("UPDATE generation SET number = number + 1")
            yield
            self.require_owner()
            self.connection.execute("COMMIT")
        except BaseException:
            # a commit that fails (a full disk) has ended the transaction already
            with suppress(duckdb.TransactionException):
                self.connection.execute("ROLLBACK")
            raise

    @property
    def state(self) -> str:
        """Names what readers should see: the database's identity and its generation."""
        rows = self.connection.execute("SELECT identity, number FROM generation").fetchall()
        return f"{rows[0][0]}:{rows[0][1]}"

    def absolute(self, paths: Iterable[str]) -> list[str]:
        """Data files of the run as DuckDB opens them."""
        return [str(self.file(path)) for path in paths]

    def file(self, path: str) -> Path:
        """The data file of that path."""
        return data_file(self.run_folder, self.path.parent, path)


def _opened(path: Path) -> Connection:
    if path.exists():
        try:
            return _opened_own(path)
        except duckdb.Error:  # damaged: everything in it can be made again from the files
            path.unlink(missing_ok=True)
    path.with_name(path.name + ".wal").unlink(missing_ok=True)  # DuckDB would take it for its own
    try:
        connection = _connected(path)
        connection.execute(SETUP)
    except duckdb.Error as error:
        raise UserError(f"the index {path} cannot be written: {error}") from error
    return connection


def _connected(path: Path) -> Connection:
    connection = duckdb.connect(str(path), config=_CONFIG)
    # else it draws bars into the output of a server that `python -c` runs
    connection.execute("SET enable_progress_bar = false")
    return connection


def _opened_own(path: Path) -> Connection:
    connection = _connected(path)
    try:
        require_own(connection, path.stem)
        connection.execute(SETUP)
    except duckdb.Error:
        connection.close()
        raise
    return connection
