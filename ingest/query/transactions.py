"""Transactions of the index database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit what the block does, or nothing of it; raises what the block or the commit raises.

    A commit that fails (a full disk) has ended the transaction already.
    """
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.TransactionException):
            connection.execute("ROLLBACK")
        raise
