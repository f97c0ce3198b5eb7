"""Tables of the questions that detectors read, built by hand: times in ms, one row per cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tests.diagnosis.answer_schema import answer_schema
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
    forward_ms: Compute | None = None,
    wait_ms: float = 1.0,
) -> dict[str, pa.Table]:
    """Answers of rank_work, rank_phases, rank_places, waits_by_group and op_times (none); noise:
    sigma of the logarithm. Who does not compute communicates: steps end together. `wait_ms`: where
    `caused_ms` is known.
    """
    random = np.random.default_rng(seed)
    chosen = range(layout.world_size) if ranks is None else ranks
    work = [
        {
            "rank": rank,
            "step": step,
            "step_ms": 200.0,
            "compute_ms": compute_ms(rank, step) * float(np.exp(random.normal(0, noise))),
            "cpu_ms": None if cpu_ms is None else cpu_ms(rank, step),
            "wait_caused_ms": None if caused_ms is None else caused_ms(rank, step),
            "wait_ms": None if caused_ms is None else wait_ms,
            "forward_ms": None if forward_ms is None else forward_ms(rank, step),
        }
        for rank in chosen
        for step in range(num_steps)
    ]
    places = [
        {
            "rank": rank,
            "host": f"node{rank // ranks_per_host}",
            "device": device,
            "world_size": layout.world_size,
            **{
                axis: layout.coords(rank).get(axis) if known_layout else None
                for axis in ("pp", "dp", "cp", "tp", "ep")
            },
        }
        for rank in chosen
    ]
    phases = [
        {
            **dict.fromkeys(_UNKNOWN_PHASES),
            **PHASES,
            **{name: cell[name] for name in ("rank", "step", "step_ms", "compute_ms", "cpu_ms")},
            "comm_ms": max(cell["step_ms"] - PHASES["data_ms"] - cell["compute_ms"], 0.0),
        }
        for cell in work
    ]
    return {
        "rank_work": pa.Table.from_pylist(work, _WORK),
        "rank_phases": pa.Table.from_pylist(phases, _CELLS),
        "rank_places": pa.Table.from_pylist(places, _PLACES),
        "waits_by_group": pa.Table.from_pylist(groups or [], _GROUPS),
        "op_times": NO_OPS,
    }


OPS = answer_schema(
    "rank INTEGER, step BIGINT, name VARCHAR, op_ms DOUBLE, typical_ms DOUBLE, depth INTEGER, "
    "num_spans BIGINT"
)
NO_OPS = pa.Table.from_pylist([], OPS)


_WORK = answer_schema(
    "rank INTEGER, step BIGINT, step_ms DOUBLE, compute_ms DOUBLE, cpu_ms DOUBLE, "
    "wait_caused_ms DOUBLE, wait_ms DOUBLE, forward_ms DOUBLE, forward_cpu_ms DOUBLE"
)
_PLACES = answer_schema(
    "rank INTEGER, host VARCHAR, device VARCHAR, world_size INTEGER, pp INTEGER, dp INTEGER, "
    "cp INTEGER, tp INTEGER, ep INTEGER"
)
_GROUPS = answer_schema(
    "rank INTEGER, group_id BIGINT, axis VARCHAR, ranks INTEGER[], wait_caused_ms DOUBLE"
)


Phases = Callable[[int, int], dict[str, float]]
"""(rank, step) -> what differs from PHASES, ms"""

PHASES = {
    "step_ms": 200.0,
    "compute_ms": 150.0,
    "comm_ms": 40.0,
    "data_ms": 2.0,
    "covered_ms": 195.0,
    "gc_ms": 0.0,
    "checkpoint_ms": 0.0,
    "host_ms": 0.0,
}
_UNKNOWN_PHASES = ("cpu_ms", "forward_idle_ms", "backward_idle_ms")


def phase_tables(
    layout: ParallelLayout,
    num_steps: int,
    phases: Phases,
    *,
    device: str = "cuda:0",
    known_layout: bool = True,
    seed: int = 1,
    noise: float = 0.01,
    ranks_per_host: int = 8,
) -> dict[str, pa.Table]:
    """Answers of rank_phases, rank_places and allocator_retries (none); noise: sigma of the
    logarithm of compute.

    Who does not compute longer communicates meanwhile: steps end together.
    """
    random = np.random.default_rng(seed)
    rows = []
    for rank in range(layout.world_size):
        for step in range(num_steps):
            changed = phases(rank, step)
            cells: dict[str, Any] = {**dict.fromkeys(_UNKNOWN_PHASES), **PHASES, **changed}
            if "compute_ms" not in changed:
                longer = cells["compute_ms"] * float(random.normal(0, noise))
                cells["compute_ms"] += longer
                cells["comm_ms"] = max(cells["comm_ms"] - longer, 0.0)
            rows.append({"rank": rank, "step": step, **cells})
    places = tables(
        layout,
        1,
        lambda rank, step: 1.0,
        device=device,
        known_layout=known_layout,
        ranks_per_host=ranks_per_host,
    )["rank_places"]
    return {
        "rank_phases": pa.Table.from_pylist(rows, _CELLS),
        "rank_places": places,
        "allocator_retries": pa.Table.from_pylist([], RETRIES),
    }


RETRIES = answer_schema("rank INTEGER, step BIGINT, num_retries BIGINT")
_CELLS = pa.schema(
    [
        ("rank", pa.int32()),
        ("step", pa.int64()),
        *((name, pa.float64()) for name in (*PHASES, *_UNKNOWN_PHASES)),
    ]
)
