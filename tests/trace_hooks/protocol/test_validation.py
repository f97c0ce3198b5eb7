"""Members of a request are read one by one, and refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from trace_hooks.protocol.validation import an_id, members, quoted, whole_from

READ = {"id": lambda key, value: an_id("a thing", key, value), "size": whole_from("a thing", 1, 9)}


def test_members_are_read_each() -> None:
    assert members("a thing", {"id": "a.b", "size": 3}, READ, ("id",)) == {"id": "a.b", "size": 3}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "a thing is an object"),
        ({"id": "x", "colour": 1}, "a thing has no 'colour'; it has id, size"),
        ({"size": 1}, "a thing needs id"),
        ({"id": "-x"}, "a thing's id is '-x'"),
        ({"id": "x" * 65}, "up to 64 letters"),
        ({"id": "x", "size": True}, "a thing's size is True"),
        ({"id": "x", "size": 10}, "give a whole number from 1 to 9"),
    ],
)
def test_a_wrong_member_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        members("a thing", value, READ, ("id",))


def test_nothing_is_a_value_where_it_may_be() -> None:
    assert whole_from("a thing", 0, 1, nothing=True)("size", None) is None


def test_long_values_are_cut() -> None:
    for value in ("x" * 10**6, list(range(10**6)), 10**1_000, {"a": "b" * 10**6}):
        assert len(quoted(value)) < 120
