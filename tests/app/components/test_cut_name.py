"""Names are never changed by being shortened: their parts are the whole name."""

import pytest

from app.components.cut_name import KEPT_END, cut_name, parts


@pytest.mark.parametrize("name", ["", "a", "x" * KEPT_END, "pretraining-70b-2026-11-23-attempt-4"])
def test_the_parts_are_the_whole_name_and_the_end_stays(name: str) -> None:
    head, end = parts(name)
    assert head + end == name
    assert len(end) == min(len(name), KEPT_END)
    assert [part.children for part in cut_name(name).children] == [head, end]
