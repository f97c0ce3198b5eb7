"""Bundles hold whole segments under the names that these will have."""

from __future__ import annotations

import io
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq

from trace_hooks.schema import TABLES, SegmentName
from trace_hooks.schema.bundles import BundleName, write_bundle


def marks(*ranks: int) -> pa.Table:
    row = {"attempt": 2, "step": 0, "ts_ns": 1, "kind": "note", "text": "t", "args": None}
    rows = [row | {"rank": rank} for rank in ranks]
    return pa.Table.from_pylist(rows, schema=TABLES["marks"].schema)


def test_names_come_back() -> None:
    name = BundleName(2, 12_280, 1_795_743_692_366_066_598)
    assert BundleName.parse(str(name)) == name
    assert BundleName.parse("bundle-0000-00000-00000000.parquet") is None
    assert BundleName.parse(".bundle-0000-00000-00000000.zip") is None
    assert SegmentName.parse(str(name)) is None


def test_a_segment_holds_ranks_of_one_band() -> None:
    content = io.BytesIO()
    number = write_bundle(content, BundleName(2, 0, 10_000_000), {"marks": marks(63, 0, 64, -1)})
    with zipfile.ZipFile(content) as archive:
        names = archive.namelist()
        found = [pq.read_table(io.BytesIO(archive.read(name))) for name in names]
    assert number == 3
    assert [SegmentName.parse(name) for name in names] == [
        SegmentName("marks", 2, 0, 10_000_000 + part) for part in range(3)
    ]
    assert [rows.column("rank").to_pylist() for rows in found] == [[-1], [63, 0], [64]]
