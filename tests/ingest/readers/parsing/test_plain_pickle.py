"""Pickles of plain containers are read, others refused by name, cut ones kept as far as they go."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  # what the test itself packed

import pytest

from ingest.readers.parsing.plain_pickle import CutShort, NotPlain, loads

DATA = {"entries": [{"id": i, "sizes": ((1, 2), ()), "x": 1.5} for i in range(50)]}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_comes_back(protocol: int) -> None:
    packed = pickle.dumps(DATA, protocol)
    assert loads(packed) == DATA


class _Runs:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("true",)


def test_what_would_run_code_is_named_and_not_run() -> None:
    packed = pickle.dumps({"a": _Runs()})
    with pytest.raises(NotPlain, match="system"):
        loads(packed)


def test_a_cut_one_is_damage() -> None:
    packed = pickle.dumps(DATA)
    with pytest.raises(CutShort) as raised:
        loads(packed[:-9])
    assert len(raised.value.value["entries"]) > 40
