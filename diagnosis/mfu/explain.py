"""What the parts that grew lead to: operations, ranks, causes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from diagnosis.mfu.comparison import LONG_STEPS, Comparison
from diagnosis.mfu.operations import op_means
from diagnosis.mfu.parts import COMMUNICATION, COMPUTE, WAITING
from diagnosis.mfu.skew import skew_of
from diagnosis.mfu.step_times import StepTimes
from diagnosis.statistics.units import in_ms

QUESTIONS = ("device_time_by_rank", "collective_ops", "op_times")
"""Asked of both windows."""

MOST_PARTS = 4
_LEAST_SHARE = 0.1
"""Of all that was lost: smaller parts are not named."""
_MAIN_SHARE = 0.5

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Window:
    """The steps of one window and the answers of QUESTIONS for them."""

    times: StepTimes
    tables: Tables


@dataclass(frozen=True)
class Cause:
    """Of a part that grew. `text`: empty where there is no more to say; `ranks`: to look at."""

    part: str
    kind: str
    text: str
    ranks: tuple[int, ...]


def causes(comparison: Comparison, before: Window, after: Window) -> tuple[Cause, ...]:
    """Of each part that grew beyond its noise and matters, the greatest first."""
    named = named_parts(comparison)
    waited = [change for change in comparison.changes if change.name in WAITING]
    is_main = sum(change.points for change in waited) >= _MAIN_SHARE * comparison.lost.points
    first = next((name for name in named if name in WAITING), "")
    return tuple(
        _skew(name, is_main, before, after) if name == first else _cause(name, before, after)
        for name in named
    )


def named_parts(comparison: Comparison) -> tuple[str, ...]:
    """The one part asked for, else those of usual steps that make up their loss."""
    if comparison.part is not None:
        return (comparison.part.name,)
    parts = [change for change in comparison.changes if change.name != LONG_STEPS]
    lost = sum(max(change.points, 0.0) for change in parts)
    return tuple(
        change.name for change in parts if change.grew and change.points >= _LEAST_SHARE * lost
    )[:MOST_PARTS]


def _skew(name: str, is_main: bool, before: Window, after: Window) -> Cause:
    was, now = (window.tables["device_time_by_rank"] for window in (before, after))
    skew = skew_of(before.times, after.times, was, now, is_main)
    return Cause(name, skew.cause, skew.text, skew.ranks)


def _cause(name: str, before: Window, after: Window) -> Cause:
    ranks = _ranks_with_more(name, before, after)
    if name in COMMUNICATION:
        return Cause(name, "operation", _moved(name.removeprefix("moving_"), before, after), ranks)
    if name == COMPUTE and not after.times.hides_waiting:
        return Cause(name, "operation", _computed(before, after), ranks)
    return Cause(name, "", "", ranks)


def _ranks_with_more(name: str, before: Window, after: Window) -> tuple[int, ...]:
    """The ranks on which the part grew most, if it did not on most others as well."""
    times: list[dict[int, float]] = [
        {row["rank"]: row[f"{name}_ms"] for row in window.tables["device_time_by_rank"].to_pylist()}
        for window in (before, after)
    ]
    more = {rank: ms - times[0].get(rank, 0.0) for rank, ms in times[1].items()}
    total = sum(max(ms, 0.0) for ms in more.values())
    far = [rank for rank, ms in more.items() if ms > 2 * total / max(len(more), 1)]
    return tuple(sorted(far, key=lambda rank: -more[rank])[:3])


def _moved(axis: str, before: Window, after: Window) -> str:
    """The operation of an axis that moves data for longer, above all."""
    rows = (window.tables["collective_ops"].to_pylist() for window in (before, after))
    was, now = (
        {row["op"]: row["moving_ms"] for row in answer if row["axis"] == axis} for answer in rows
    )
    return _most_grown({op: (was.get(op, 0.0), ms) for op, ms in now.items()})


def _computed(before: Window, after: Window) -> str:
    """The operation that computes for longer, above all; of nested ones the innermost."""
    was, now = (op_means(window.tables["op_times"].to_pylist()) for window in (before, after))
    grown = {op: (was[op][0], ms) for op, (ms, _) in now.items() if op in was}
    more = {op: after_ms - before_ms for op, (before_ms, after_ms) in grown.items()}
    greatest = max(more.values(), default=0.0)
    behind = [op for op, ms in more.items() if ms >= _MAIN_SHARE * greatest > 0]
    inner = max(behind, key=lambda op: (now[op][1], more[op]), default=None)
    return "" if inner is None else _grown_text(inner, *grown[inner])


def _most_grown(ops: Mapping[str, tuple[float, float]]) -> str:
    op = max(ops, key=lambda op: ops[op][1] - ops[op][0], default=None)
    return "" if op is None or ops[op][1] <= ops[op][0] else _grown_text(op, *ops[op])


def _grown_text(op: str, before_ms: float, after_ms: float) -> str:
    return f"above all {op}, {in_ms(after_ms)} per step after {in_ms(before_ms)}"
