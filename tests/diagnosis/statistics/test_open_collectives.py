"""Where a job stands, by hand-made answers of `outstanding`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from diagnosis.statistics.open_collectives import describe_open_collectives
from tests.diagnosis.answer_schema import answer_schema

_SCHEMA = answer_schema(
    "group_id BIGINT, name VARCHAR, axis VARCHAR, num_open BIGINT, seq BIGINT, op VARCHAR, "
    "behind INTEGER[], ahead INTEGER[], ahead_seq BIGINT, absent INTEGER[]"
)


def described(*rows: dict[str, Any]) -> str | None:
    usual = {"group_id": 1, "name": "7", "axis": "tp", "num_open": 2, "seq": 5, "op": "all_reduce"}
    return describe_open_collectives(
        pa.Table.from_pylist([{**usual, **row} for row in rows], _SCHEMA)
    )


def test_the_members_behind_are_waited_for() -> None:
    text = described({"behind": [4], "ahead": [5], "ahead_seq": 9}, {"behind": [0, 1]})
    assert text is not None
    assert "have: group 7 (tp) waits in all_reduce 9 for rank 4." in text


def test_members_without_an_open_collective_are_waited_for() -> None:
    text = described(
        {"behind": [0, 1], "absent": [3]}, {"axis": "unknown", "behind": [6], "absent": [7]}
    )
    assert text is not None
    assert (
        "waits in all_reduce 5 for rank 3. Over all groups, the others wait for ranks 3, 7" in text
    )


def test_all_members_at_the_same_collective_and_nothing_open() -> None:
    assert described({"behind": [0, 1]}) == (
        "1 group has open collectives, all entered by every known member."
    )
    assert described({"num_open": 0, "seq": None}) is None
