"""Only a database with the index's own tables is taken for one."""

from __future__ import annotations

import duckdb
import pytest

from ingest.query.index_catalog import SETUP, ForeignIndex, require_own, require_own_tables


def test_an_empty_one_and_our_own_are_taken() -> None:
    with duckdb.connect() as connection:
        require_own(connection, "memory")
        connection.execute(SETUP)
        require_own(connection, "memory")
        require_own_tables(connection, "memory")


def test_anything_more_or_less_is_refused() -> None:
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        connection.execute("CREATE VIEW more AS SELECT 1 AS one")
        require_own_tables(connection, "memory")  # only read: what is never named does no harm
        with pytest.raises(ForeignIndex):
            require_own(connection, "memory")
        connection.execute("DROP TABLE files")
        with pytest.raises(ForeignIndex):
            require_own_tables(connection, "memory")
