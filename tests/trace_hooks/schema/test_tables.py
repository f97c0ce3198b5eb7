"""Tables: their common columns, and how Parquet holds them."""

from __future__ import annotations

import pytest

from trace_hooks.schema import CONTENT_TABLES, TABLES, column_encodings, dictionary_columns


@pytest.mark.parametrize("name", TABLES)
def test_rows_begin_with_attempt_rank_and_step(name: str) -> None:
    columns = [column.name for column in TABLES[name].columns]
    assert columns[:3] == ["attempt", "rank", "step"]
    assert len(set(columns)) == len(columns)


@pytest.mark.parametrize("name", TABLES)
def test_each_column_is_encoded_in_one_way(name: str) -> None:
    deltas, dictionaries = set(column_encodings(name)), set(dictionary_columns(name))
    assert not deltas & dictionaries
    assert "step" in deltas
    assert "data" not in dictionaries


def test_content_is_in_known_tables() -> None:
    assert set(CONTENT_TABLES) <= set(TABLES)
