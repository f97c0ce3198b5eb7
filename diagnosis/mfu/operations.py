"""The operations that a part of the time consists of, above all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from diagnosis.mfu.parts import COMMUNICATION, COMPUTE

QUESTIONS = ("collective_ops", "op_times")

MOST_NAMED = 2
_MAIN_SHARE = 0.5

Operations = dict[str, tuple[tuple[str, float], ...]]


def operations_of(tables: Mapping[str, pa.Table]) -> Operations:
    """By part the names of its longest operations, and what each takes per step, ms: of
    communication as long as data move, of compute those that hold no others.
    """
    found: Operations = {}
    moving = tables["collective_ops"].to_pylist()
    for part in COMMUNICATION:
        axis = part.removeprefix("moving_")
        found[part] = _longest(
            (row["op"], row["moving_ms"]) for row in moving if row["axis"] == axis
        )
    found[COMPUTE] = _longest(_innermost(op_means(tables["op_times"].to_pylist())))
    return {part: named for part, named in found.items() if named}


def op_means(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[float, int]]:
    """By operation: mean time per step and rank, and how deep it is nested; rows of op_times."""
    sums = defaultdict[str, float](float)
    depth: dict[str, int] = {}
    cells = set()
    for row in rows:
        sums[row["name"]] += row["typical_ms"]
        depth[row["name"]] = min(row["depth"], depth.get(row["name"], row["depth"]))
        cells.add((row["rank"], row["step"]))
    return {name: (total / len(cells), depth[name]) for name, total in sums.items()}


def _innermost(means: Mapping[str, tuple[float, int]]) -> list[tuple[str, float]]:
    """Those of the deepest level that still holds most of the time."""
    levels = defaultdict[int, float](float)
    for ms, depth in means.values():
        levels[depth] += ms
    most = _MAIN_SHARE * max(levels.values(), default=0.0)
    level = max((depth for depth, ms in levels.items() if ms >= most), default=0)
    return [(name, ms) for name, (ms, depth) in means.items() if depth == level]


def _longest(ops: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    named = sorted(((op, ms) for op, ms in ops if ms > 0), key=lambda pair: -pair[1])
    return tuple(named[:MOST_NAMED])
