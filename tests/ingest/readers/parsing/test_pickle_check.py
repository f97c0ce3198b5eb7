"""Pickles as PyTorch writes dumps pass the check, and are built by C; nothing else does."""

from __future__ import annotations

import pickle  # noqa: TID251  # what the test itself packed

import pytest

from ingest.readers.parsing.pickle_check import built, is_plain

DUMP = {"entries": [{"id": n, "sizes": ((1, 2), ()), "x": 1.5} for n in range(50)]}
PACKED = pickle.dumps(DUMP, 2)


def test_a_dump_passes_and_is_built() -> None:
    assert is_plain(PACKED, 1 << 20)
    assert built(PACKED) == DUMP


@pytest.mark.parametrize(
    "data",
    [pickle.dumps(DUMP, 4), pickle.dumps(print, 2), PACKED[:-9], b""],
    ids=["a later protocol", "a global", "cut", "nothing"],
)
def test_anything_else_is_left_to_the_machine(data: bytes) -> None:
    assert not is_plain(data, 1 << 20)


def test_one_of_too_many_steps_is_left_to_the_machine() -> None:
    assert not is_plain(PACKED, 10)
