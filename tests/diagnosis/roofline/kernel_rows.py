"""Rows of operation_kernels and device_roofs by hand."""

from __future__ import annotations

import json
from typing import Any

from diagnosis.roofline.roofs import Roofs

H100 = Roofs(
    "NVIDIA H100 80GB HBM3", {"half": 989, "tf32": 494, "float32": 67, "float8": 1979}, 3350
)


def mm_text(rows: int = 4096, dtype: str = "c10::BFloat16", op: str = "aten::mm") -> str:
    """The operation of a product of a matrix of so many rows with one of 4096 x 4096."""
    return json.dumps(
        {"op": op, "dims": [[rows, 4096], [4096, 4096]], "types": [dtype, dtype]},
        separators=(",", ":"),
    )


def kernel_row(rank: int = 0, median_us: float = 200.0, **changed: Any) -> dict[str, Any]:
    """Ten calls of one kernel over two steps, whose outer deciles are 1 % off its median."""
    row = {
        "rank": rank,
        "operation": mm_text(),
        "part": 0,
        "name": "gemm",
        "calls": 10,
        "median_us": median_us,
        "low_us": 0.99 * median_us,
        "high_us": 1.01 * median_us,
        "num_steps": 2,
    } | changed
    row.setdefault("alone_calls", row["calls"])
    return {"total_ms": row["calls"] * row["median_us"] / 1e3} | row
