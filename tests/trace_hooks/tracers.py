"""A tracer in this process, and what it has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trace_hooks as th
from trace_hooks.schema.reading import read_rows


def start(folder: Path, **arguments: Any) -> th.Tracer:
    return th.start(folder, **{"sources": ["gc"], **arguments})


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    return [row for run in sorted(folder.glob("*")) for row in read_rows(run, table).to_pylist()]


def rank_file(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*/ranks/0000-00000.json")
    return json.loads(path.read_text())
