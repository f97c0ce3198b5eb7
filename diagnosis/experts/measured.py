"""Ping-pong as a run shows it: how long attention, experts and transfers take.

One pass for each pipeline stage with experts. Attention and experts may run on the same ranks
(training) or on ranks of their own (serving): then these make one pass together, whatever their
stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from diagnosis.experts.ping_pong import PingPong
from diagnosis.experts.same_ranks import SameRanks


@dataclass(frozen=True)
class Measured:
    """One pass. `stage`: -1 unknown, or several. `step_ms`: of its ranks, median; NaN unknown."""

    stage: int
    times: PingPong  # ms; SameRanks where the same ranks do both
    ranks: tuple[int, ...]
    step_ms: float
    first_step: int
    last_step: int

    @property
    def on_same_ranks(self) -> bool:
        """Whether attention and experts run on the same ranks."""
        return isinstance(self.times, SameRanks)


def passes_of(table: pa.Table) -> list[Measured]:
    """The passes in an answer of the question expert_times, by stage; those without times of
    attention, experts and all-to-alls, or with times of 0, are left out.
    """
    rows = table.to_pylist()
    both = [row for row in rows if _has(row, "attention_ms") and _has(row, "expert_ms")]
    if not both:
        apart = _measured(-1, rows, PingPong)
        return [apart] if apart else []
    stages: dict[int, list[dict[str, Any]]] = {}
    for row in both:
        stages.setdefault(-1 if row["stage"] is None else row["stage"], []).append(row)
    found = (_measured(stage, stages[stage], SameRanks) for stage in sorted(stages))
    return [measured for measured in found if measured is not None]


def _measured(stage: int, rows: list[dict[str, Any]], form: type[PingPong]) -> Measured | None:
    names = ("attention_ms", "expert_ms", "micro_batches", "layers")
    medians = [_median(rows, name) for name in names]
    known = [value for value in medians if value is not None and value > 0]
    transfer = _median(rows, "transfer_ms")
    if transfer is None:  # the member that comes last waits for nobody
        waited = [row["all_to_all_p50_ms"] for row in rows if _has(row, "all_to_all_p50_ms")]
        transfer = min(waited, default=None)
    if len(known) < len(names) or transfer is None:
        return None
    attention, experts, micro_batches, layers = known
    times = form(attention, experts, transfer, max(round(micro_batches), 1), max(round(layers), 1))
    step_ms = _median(rows, "step_ms")
    first, last = (
        [row[name] for row in rows if row[name] is not None] for name in ("first_step", "last_step")
    )
    return Measured(
        stage,
        times,
        tuple(row["rank"] for row in rows),
        float("nan") if step_ms is None else step_ms,
        min(first, default=0),
        max(last, default=0),
    )


def _has(row: Mapping[str, Any], name: str) -> bool:
    return row[name] is not None


def _median(rows: Iterable[Mapping[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return float(np.median(values)) if values else None
