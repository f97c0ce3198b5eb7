"""Files are written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_hooks.schema import TABLES, VERSION_BYTES, publish_json, publish_table


def rows(count: int) -> pa.Table:
    schema = TABLES["groups"].schema
    row = {
        "attempt": 0,
        "rank": 1,
        "step": 2,
        "group_id": 3,
        "name": "a",
        "desc": "",
        "axis": "tp",
        "ranks": [0, 1],
    }
    return pa.Table.from_pylist([row] * count, schema=schema)


def test_a_table_comes_back_with_its_version(tmp_path: Path) -> None:
    path = tmp_path / "groups.parquet"
    assert publish_table(rows(3), path) == path.stat().st_size
    table = pq.read_table(path)
    assert table.to_pylist() == rows(3).to_pylist()
    assert table.schema.metadata[b"rankscope.schema"] == VERSION_BYTES
    assert list(tmp_path.iterdir()) == [path]


def test_json_comes_back(tmp_path: Path) -> None:
    publish_json({"a": [1]}, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text()) == {"a": [1]}


@pytest.mark.parametrize("value", [object(), {1: {2}}])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "run.json"
    publish_json({"a": 1}, path)
    with pytest.raises(TypeError):
        publish_json(value, path)
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_under_the_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (tmp_path / f".run.json.{os.getpid()}.tmp").symlink_to(target)
    publish_json({}, tmp_path / "run.json")
    assert target.read_text() == "mine"
