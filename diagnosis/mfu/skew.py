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

from diagnosis.mfu.parts import COMMUNICATION, NAMES, WAITING
from diagnosis.mfu.step_times import StepTimes
from diagnosis.statistics.late_ranks import STEADY_SHARE
from diagnosis.statistics.peers import NOISE_MADS
from diagnosis.statistics.units import in_ms

GC, RANK, UNKNOWN = "garbage_collections", "rank", "unknown"

_MAIN_SHARE = 0.5
"""Of the waiting that was added: a cause is named from half of it on."""
_ABOVE_ALL = 2.0
"""A rank is named whose own time grew this many times as much beyond the others' as the next's."""
_FEWEST_RANKS = 4
_OWN = tuple(name for name in NAMES if name not in (*COMMUNICATION, *WAITING))


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
    is_main: bool,
) -> Skew:
    """Of waiting that grew between two windows, for ranks of a stage or for stages. Rows:
    device_time_by_rank of each. `is_main`: whether most of what was lost is waiting; where it only
    goes with something else, no rank is named.
    """
    waited_ms = sum(float(after.of(name).mean() - before.of(name).mean()) for name in WAITING)
    collected_ms = float(after.longest("gc").mean() - before.longest("gc").mean())
    if collected_ms > 0 and collected_ms >= _MAIN_SHARE * waited_ms:
        return _by_collections(before, after)
    rank = _longer_rank(before_rows, after_rows, waited_ms) if is_main else None
    if rank is not None:
        return Skew(RANK, f"for rank {rank}, which takes longer than before", (rank,))
    few = after_rows.num_rows < _FEWEST_RANKS
    alone = "ranks are too few to compare" if few else "no single rank stands out"
    return Skew(UNKNOWN, f"skew of unknown cause: {alone}, {_why(before, after)}", ())


def _by_collections(before: StepTimes, after: StepTimes) -> Skew:
    rank_S = after.gc_rank_S[after.gc_rank_S >= 0]
    ranks, counts = np.unique(rank_S, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    named = tuple(int(rank) for rank in ranks[order][:3])
    share = float(counts.max() / counts.sum())
    who = f"rank {named[0]}" if share >= STEADY_SHARE else "another rank from step to step"
    was, now = (in_ms(float(times.longest("gc").mean())) for times in (before, after))
    text = (
        f"launch skew by garbage collections: they stop {who}, for {now} per step on the rank that "
        f"has most of them, after {was}"
    )
    return Skew(GC, text, named)


def _longer_rank(before_rows: pa.Table, after_rows: pa.Table, waited_ms: float) -> int | None:
    """The rank whose own time grew beyond that of the others: by half of what ranks wait longer,
    and far beyond what the others differ by.
    """
    was, now = _own_times(before_rows), _own_times(after_rows)
    ranks = [rank for rank in now if rank in was]
    if len(ranks) < _FEWEST_RANKS:
        return None
    grown_R = np.array([now[rank] - was[rank] for rank in ranks])
    order_R = np.argsort(-grown_R, kind="stable")
    others_R = grown_R[order_R[1:]]
    excess_R = grown_R[order_R] - np.median(others_R)
    noise = NOISE_MADS * float(np.median(np.abs(others_R - np.median(others_R))))
    least = max(_ABOVE_ALL * float(excess_R[1]), _MAIN_SHARE * waited_ms, noise)
    return ranks[int(order_R[0])] if excess_R[0] >= least and waited_ms > 0 else None


def _own_times(rows: pa.Table) -> dict[int, float]:
    """By rank: what its steps take without waiting and communication, ms."""
    found: list[Mapping[str, Any]] = rows.to_pylist()
    return {row["rank"]: sum(row[f"{name}_ms"] for name in _OWN) for row in found}


def _why(before: StepTimes, after: StepTimes) -> str:
    if not (before.longest("gc").any() or after.longest("gc").any()):
        return "and no garbage collection was recorded"
    return "and garbage collections did not grow as much"
