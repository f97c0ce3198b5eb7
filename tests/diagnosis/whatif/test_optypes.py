"""Types of operations."""

from __future__ import annotations

import pytest

from diagnosis.whatif.optypes import OPTYPES, reported_as


def test_every_type_is_of_some_kind() -> None:
    assert len(set(OPTYPES)) == len(OPTYPES) == 14
    assert all(optype == optype.lower() for optype in OPTYPES)


@pytest.mark.parametrize(
    ("optype", "name"),
    [
        ("forward-send", "forward-pp-comm"),
        ("forward-recv", "forward-pp-comm"),
        ("forward-compute", "forward-compute"),
    ],
)
def test_sends_and_receives_of_a_direction_are_reported_as_one(optype: str, name: str) -> None:
    assert reported_as(optype) == name
