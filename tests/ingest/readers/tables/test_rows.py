"""Rows of a table from columns: defaults, codes, odd text."""

from __future__ import annotations

import numpy as np

from ingest.readers.tables.rows import Coded, rank_info, rows, utf8
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import TABLES


def test_what_is_not_given_is_unknown() -> None:
    table = rows("spans", 2, {"rank": 3, "ts_ns": [1, 2], "dur_ns": 0, "kind": "host"})
    assert table.schema.equals(TABLES["spans"].schema)
    row = table.to_pylist()[1]
    assert (row["rank"], row["ts_ns"], row["step"], row["coll_seq"]) == (3, 2, -1, -1)
    assert (row["name"], row["recompute"], row["mode"]) == ("", False, "imported")


def test_codes_keep_only_texts_that_occur() -> None:
    coded = Coded(np.array([2, 2], np.int32), ["a", "b", "c"])
    column = rows("spans", 2, {"name": coded}).column("name")
    assert column.to_pylist() == ["c", "c"]
    assert column.chunk(0).dictionary.to_pylist() == ["c"]


def test_half_a_surrogate_does_not_reach_a_file() -> None:
    assert utf8("a\ud800") == "a?"
    assert rows("spans", 1, {"name": ["\ud800"]}).column("name").to_pylist() == ["?"]


def test_a_rank_outside_its_layout_has_no_coordinates() -> None:
    layout = ParallelLayout.from_sizes(dp=2)
    assert rank_info(1, layout=layout)["coords"] == {"dp": 1}
    assert rank_info(5, layout=layout)["coords"] is None
