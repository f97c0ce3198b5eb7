"""A tracer in this process, and what it has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import trace_hooks as th
from trace_hooks.schema import SegmentName


def start(folder: Path, **arguments: Any) -> th.Tracer:
    return th.start(folder, **{"sources": ["gc"], **arguments})


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.glob("*/segments/*.parquet")):
        name = SegmentName.parse(path.name)
        assert name is not None
        if name.table == table:
            found += pq.read_table(path).to_pylist()
    return found


def rank_file(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*/ranks/0000-00000.json")
    return json.loads(path.read_text())
