"""Answers in portions that the reader can hold; a row that is too large is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ingest.errors import UserError
from ingest.free_sql import portions as module
from ingest.free_sql.portions import check_schema, portions


def test_a_batch_is_cut_where_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 12)
    batch = pa.record_batch({"text": ["x" * 500] * 20})
    parts = list(portions(batch))
    assert len(parts) > 1
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))


def test_one_row_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    with pytest.raises(UserError, match="a row of the answer takes more than 1 MB"):
        list(portions(pa.record_batch({"n": pa.array([[None] * 100_000])})))


def test_too_many_columns_are_refused() -> None:
    schema = pa.schema([("c" * 100 + str(n), pa.int64()) for n in range(60_000)])
    with pytest.raises(UserError, match="names of the 60000 columns"):
        check_schema(schema)
