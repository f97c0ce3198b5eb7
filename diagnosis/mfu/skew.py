"""Why ranks wait for each other longer than before: garbage collections, one rank, or unknown.

Python's collector stops a rank in the middle of a step, another rank each time; all others
wait, and the skew of their launches grows with what there is to collect (MegaScale,
arXiv:2402.15627, 6.3). It is named only where collections were recorded and grew with the waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.mfu.step_times import StepTimes
from diagnosis.statistics.late_ranks import STEADY_SHARE
from diagnosis.statistics.units import in_ms

GC, RANK, UNKNOWN = "garbage_collections", "rank", "unknown"

_MAIN_SHARE = 0.5
"""Of what was added: collections are named from half of it on."""
_ABOVE_ALL = 2.0
"""A rank is named that makes others wait this many times as much longer as the next one: who waits
for it comes late elsewhere, and makes others wait in turn.
"""


@dataclass(frozen=True)
class Skew:
    """`cause`: GC, RANK or UNKNOWN. `ranks`: who came late, or collected most often first."""

    cause: str
    text: str
    ranks: tuple[int, ...]


def skew_of(
    before: StepTimes,
    after: StepTimes,
    before_rows: pa.Table,
    after_rows: pa.Table,
) -> Skew:
    """Of waiting that grew between two windows. Rows: device_time_by_rank of each."""
    waited_ms = float(after.of("waiting").mean() - before.of("waiting").mean())
    collected_ms = float(after.gc_S.mean() - before.gc_S.mean())
    if collected_ms > 0 and collected_ms >= _MAIN_SHARE * waited_ms:
        return _by_collections(before, after)
    more = _wait_caused(after_rows)
    for rank, ms in _wait_caused(before_rows).items():
        more[rank] = more.get(rank, 0.0) - ms
    order = sorted(more, key=lambda rank: -more[rank])
    if len(order) > 1 and more[order[0]] >= _ABOVE_ALL * max(more[order[1]], 0.0) > 0:
        text = f"above all for rank {order[0]}, which comes later than before"
        return Skew(RANK, text, (order[0],))
    text = f"skew of unknown cause: no single rank stands out, {_why(before, after)}"
    return Skew(UNKNOWN, text, ())


def _by_collections(before: StepTimes, after: StepTimes) -> Skew:
    rank_S = after.gc_rank_S[after.gc_rank_S >= 0]
    ranks, counts = np.unique(rank_S, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    named = tuple(int(rank) for rank in ranks[order][:3])
    share = float(counts.max() / counts.sum())
    who = f"rank {named[0]}" if share >= STEADY_SHARE else "another rank from step to step"
    text = (
        f"launch skew by garbage collections: they stop {who}, for {in_ms(after.gc_S.mean())} per "
        f"step on the rank that has most of them, after {in_ms(before.gc_S.mean())}"
    )
    return Skew(GC, text, named)


def _wait_caused(rows: pa.Table) -> dict[int, float]:
    found: list[Mapping[str, Any]] = rows.select(["rank", "wait_caused_ms"]).to_pylist()
    return {row["rank"]: row["wait_caused_ms"] or 0.0 for row in found}


def _why(before: StepTimes, after: StepTimes) -> str:
    if not (before.gc_S.any() or after.gc_S.any()):
        return "and no garbage collection was recorded"
    return "and garbage collections did not grow as much"
