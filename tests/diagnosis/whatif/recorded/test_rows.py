"""What recorded spans lack for a replay is one sentence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from diagnosis.whatif.operations import NotAnswerable, Sizes
from diagnosis.whatif.recorded import recorded_operations
from tests.diagnosis.whatif.test_recorded import ops_of, two_stages


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"is_aligned": False}, "not aligned, .*; import the files of all ranks together"),
        ({"stage": None}, "layout of the job is unknown"),
        ({"stage": 3}, "stages up to 3 and dp ranks up to 0"),
        ({"microbatch": -1}, "micro-batches were not recorded"),
        ({"chunk": 5}, "do not go round the stages"),
        ({"kind": "host"}, "no forward or backward was recorded"),
    ],
)
def test_what_is_unknown_is_stated_in_one_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(NotAnswerable, match=message):
        ops_of([{**row, **change} for row in two_stages()], Sizes(1, 2))


def test_nothing_recorded() -> None:
    empty = pa.Table.from_pylist(two_stages()).slice(0, 0)
    with pytest.raises(NotAnswerable, match="nothing to replay"):
        recorded_operations(empty, Sizes(1, 2))
