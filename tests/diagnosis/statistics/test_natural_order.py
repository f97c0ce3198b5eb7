"""Names in the order in which people count."""

from __future__ import annotations

import itertools

from diagnosis.statistics.natural_order import natural


def test_numbers_in_names_are_compared_as_numbers() -> None:
    names = ["0", "1", "2", "10", "11", "10.0.0.2", "10.0.0.10", "a", "a2b9", "a2b10", "a10"]
    expected = ["0", "1", "2", "10", "10.0.0.2", "10.0.0.10", "11", "a", "a2b9", "a2b10", "a10"]
    assert sorted(names, key=natural) == expected
    for some in itertools.permutations(["n1", "n01", "n001", "n2"]):
        assert sorted(some, key=natural) == ["n001", "n01", "n1", "n2"]


def test_a_number_may_have_more_digits_than_int_takes() -> None:
    assert sorted(["n1" + "0" * 5000, "n9"], key=natural)[0] == "n9"
