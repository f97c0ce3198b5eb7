"""What the tests of the ranks page share: cells made by hand, and the reader of binary answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from app.views.cells import Cells, Places
from app.views.scales import METRICS


def places_of(num_ranks: int, per_host: int = 8, pp: int = 1, tp: int = 1) -> Places:
    """Ranks in order pp, dp, tp on hosts host-0, host-1, ..."""
    rank_R = np.arange(num_ranks)
    dp = num_ranks // (pp * tp)
    coords = {
        "pp": rank_R // (dp * tp), "dp": rank_R // tp % dp, "cp": np.full(num_ranks, -1),
        "tp": rank_R % tp,
    }  # fmt: skip
    return Places(rank_R, [f"host-{rank // per_host}" for rank in rank_R], coords)


def cells_of(deviation_RS: np.ndarray, spread: float = 0.01, **places: int) -> Cells:
    """Cells of slowdown with these deviations and one spread for all."""
    deviation_RS = deviation_RS.astype(np.float32)
    full = np.full_like
    return Cells(
        METRICS["slowdown"], places_of(len(deviation_RS), **places),
        np.arange(deviation_RS.shape[1]) + 100, deviation_RS + 1, full(deviation_RS, 200.0),
        deviation_RS, full(deviation_RS, spread), full(deviation_RS, 0.0),
        np.zeros(len(deviation_RS), dtype=int), 1000.0,
    )  # fmt: skip


def unpacked(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and meta of a binary answer, as assets/lib/arrays.mjs reads it."""
    size = int.from_bytes(content[:4], "little")
    header = json.loads(content[4 : 4 + size])
    arrays = {
        name: np.frombuffer(content, one["dtype"], one["length"], 4 + size + one["offset"])
        for name, one in header.pop("arrays").items()
    }
    return arrays, header
