"""The indexer's own SQL texts are there by name."""

from __future__ import annotations

import pytest

from ingest.query.connection import SHARED_SQL
from ingest.query.index_sql import index_sql


@pytest.mark.parametrize("name", [*SHARED_SQL, "tables"])
def test_a_text_by_name(name: str) -> None:
    assert "CREATE" in index_sql(name)


def test_a_missing_one_is_an_error_of_ours() -> None:
    with pytest.raises(FileNotFoundError):
        index_sql("no such text")
