"""Names of the files of a rank."""

from __future__ import annotations

import pytest

from trace_hooks.schema import SegmentName, rank_file_name


def test_a_segment_name_and_back() -> None:
    name = SegmentName("tensor_stats", 3, 12_287, 5)
    assert str(name) == "tensor_stats-0003-12287-00000005.parquet"
    assert SegmentName.parse(str(name)) == name
    assert SegmentName.parse(str(SegmentName("steps", 10_000, 100_000, 10**8))) is not None
    assert rank_file_name(3, 12_287) == "0003-12287.json"


@pytest.mark.parametrize(
    "name",
    [
        ".steps-0000-00000-00000000.parquet.77.tmp",
        "secrets-0000-00000-00000000.parquet",
        "steps-0-0-0.parquet",
        "steps-0000-00000-00000000.parquet\n",
        "../steps-0000-00000-00000000.parquet",
    ],
)
def test_other_files_are_not_segments(name: str) -> None:
    assert SegmentName.parse(name) is None
