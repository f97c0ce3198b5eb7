"""Ranks in names of files."""

from __future__ import annotations

import pytest

from ingest.readers.tables.whole_files import named_rank, rank_of_name


@pytest.mark.parametrize(
    ("name", "named", "by_name"),
    [
        ("job/rank-12.json", 12, 12),
        ("worker3_step_100.json.gz", 3, 3),
        ("trace_7.1699.json", None, 7),
        ("frank5.json", None, 5),
        ("trace.json", None, None),
        ("rank131071.json", 131071, 131071),
        ("rank131072.json", None, None),  # no job has so many
        ("phases_20261128.jsonl", None, None),
    ],
)
def test_a_rank_in_a_name(name: str, named: int | None, by_name: int | None) -> None:
    assert (named_rank(name), rank_of_name(name)) == (named, by_name)
