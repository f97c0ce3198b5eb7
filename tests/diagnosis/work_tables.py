"""Tables of the questions that detectors read, built by hand: times in ms, one row per cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from trace_hooks.layout import ParallelLayout

Compute = Callable[[int, int], float]
"""(rank, step) -> ms of compute"""


def tables(
    layout: ParallelLayout,
    num_steps: int,
    compute_ms: Compute,
    *,
    cpu_ms: Compute | None = None,
    caused_ms: Compute | None = None,
    device: str = "cuda:0",
    ranks_per_host: int = 8,
    seed: int = 1,
    noise: float = 0.003,
    known_layout: bool = True,
    ranks: list[int] | None = None,
    groups: list[dict[str, Any]] | None = None,
) -> dict[str, pa.Table]:
    """Answers of rank_work, rank_places and waits_by_group; noise: sigma of the logarithm."""
    random = np.random.default_rng(seed)
    chosen = range(layout.world_size) if ranks is None else ranks
    work = [
        {
            "rank": rank, "step": step, "step_ms": 200.0,
            "compute_ms": compute_ms(rank, step) * float(np.exp(random.normal(0, noise))),
            "cpu_ms": None if cpu_ms is None else cpu_ms(rank, step),
            "wait_caused_ms": None if caused_ms is None else caused_ms(rank, step),
            "wait_ms": None if caused_ms is None else 1.0,
        }
        for rank in chosen for step in range(num_steps)
    ]  # fmt: skip
    places = [
        {
            "rank": rank, "host": f"node{rank // ranks_per_host}", "device": device,
            "world_size": layout.world_size,
            **{axis: layout.coords(rank).get(axis) if known_layout else None
               for axis in ("pp", "dp", "cp", "tp", "ep")},
        }
        for rank in chosen
    ]  # fmt: skip
    return {
        "rank_work": pa.Table.from_pylist(work, _WORK),
        "rank_places": pa.Table.from_pylist(places, _PLACES),
        "waits_by_group": pa.Table.from_pylist(groups or [], _GROUPS),
    }


_WORK = pa.schema([
    ("rank", pa.int32()), ("step", pa.int64()),
    *((name, pa.float64())
      for name in ("step_ms", "compute_ms", "cpu_ms", "wait_caused_ms", "wait_ms")),
])  # fmt: skip
_PLACES = pa.schema([
    ("rank", pa.int32()), ("host", pa.string()), ("device", pa.string()),
    ("world_size", pa.int32()), *((axis, pa.int32()) for axis in ("pp", "dp", "cp", "tp", "ep")),
])  # fmt: skip
_GROUPS = pa.schema([
    ("rank", pa.int32()), ("group_id", pa.int64()), ("axis", pa.string()),
    ("ranks", pa.list_(pa.int32())), ("wait_caused_ms", pa.float64()),
])  # fmt: skip
