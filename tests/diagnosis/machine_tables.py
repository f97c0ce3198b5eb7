"""Tables of machines' metrics, built by hand: steady levels with noise, and what a test changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LEVELS = {
    "cpu_busy_seconds_total": 45.0,
    "gpu_power_watts": 600.0,
    "gpu_sm_clock_mhz": 1_900.0,
    "net_transmitted_bytes_total": 1.5e10,
    "gpu_tensor_active_ratio": 0.4,
    "memory_available_bytes": 9e11,
}
"""Metrics and their levels."""

METRICS = tuple(LEVELS)
BEGIN_S = 1_700_000_000
Singles = npt.NDArray[np.float32]


def steady(num_machines: int = 8, num_seconds: int = 600, seed: int = 1) -> Singles:
    """Values of healthy machines, [metric, second, machine]; noise of 1 %."""
    random = np.random.default_rng(seed)
    level_M11 = np.array(list(LEVELS.values()))[:, None, None]
    noise_MTN = 0.01 * random.standard_normal((len(LEVELS), num_seconds, num_machines))
    return np.asarray(level_M11 * (1 + noise_MTN), np.float32)


def machine_tables(
    values_MTN: Singles,
    metrics: Sequence[str] = METRICS,
    stages: Sequence[int] | None = None,
    step_s: int = 10,
) -> dict[str, pa.Table]:
    """Answers of the questions of faulty_machine; NaN is a lost sample. Machine i has rank i."""
    num_seconds, num_machines = values_MTN.shape[1:]
    rows = []
    for metric, values_TN in zip(metrics, values_MTN, strict=True):
        for machine in range(num_machines):
            known = np.flatnonzero(np.isfinite(values_TN[:, machine]))
            row = {"host": f"node{machine:04d}", "metric": metric, "of": ""}
            row |= {"seconds": BEGIN_S + known, "values": values_TN[known, machine].astype(float)}
            rows.append(row)
    places = [
        {"rank": rank, "host": f"node{rank:04d}", "pp": stages[rank] if stages else None}
        for rank in range(num_machines)
    ]
    begins_ns = (BEGIN_S + np.arange(0, num_seconds, step_s)) * 1_000_000_000
    clock = {"step": np.arange(begins_ns.size), "begin_ns": begins_ns}
    clock["end_ns"] = begins_ns + step_s * 1_000_000_000
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("host", "metric", "of")),
            ("seconds", pa.list_(pa.int64())),
            ("values", pa.list_(pa.float64())),
        ]
    )
    return {
        "machine_seconds": pa.Table.from_pylist(rows, schema=schema),
        "rank_places": pa.Table.from_pylist(places),
        "step_clock": pa.table(clock),
    }
