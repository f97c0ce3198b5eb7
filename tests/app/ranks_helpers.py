"""What the tests of the ranks page share: cells made by hand, and the reader of binary answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from app.views.ranks.metric_matrix import Cells
from app.views.ranks.rank_places import Places
from app.views.ranks.scales import METRICS
from tests.runs_builder import RunBuilder
from trace_hooks.layout import ParallelLayout


def places_of(num_ranks: int, per_host: int = 8, pp: int = 1, tp: int = 1) -> Places:
    """Ranks in order pp, dp, tp on hosts host-0, host-1, ..."""
    rank_R = np.arange(num_ranks)
    dp = num_ranks // (pp * tp)
    coords = {
        "pp": rank_R // (dp * tp),
        "dp": rank_R // tp % dp,
        "cp": np.full(num_ranks, -1),
        "tp": rank_R % tp,
    }
    return Places(rank_R, [f"host-{rank // per_host}" for rank in rank_R], coords)


class _Given(Cells):
    """Cells whose peers have a spread that was given."""

    spread = 0.01

    def spreads(self, deviation_GT, group_G):
        return np.full_like(deviation_GT, self.spread), np.zeros_like(deviation_GT)


def cells_of(deviation_RS: np.ndarray, spread: float = 0.01, **places: int) -> Cells:
    """Cells of slowdown with these deviations and one spread for all."""
    value_RS = deviation_RS.astype(np.float32) + 1
    num_ranks, num_steps = value_RS.shape
    given = type("Given", (_Given,), {"spread": spread})
    return given(
        METRICS["slowdown"],
        places_of(num_ranks, **places),
        np.arange(num_steps) + 100,
        value_RS,
        np.full_like(value_RS, 200.0),
        1000.0,
        np.zeros(num_steps, dtype=int),
        {0: np.zeros(num_ranks, dtype=int)},
    )


def slow_in_one_step(folder: Path, slow: int) -> None:
    """A run that has steps with gaps; rank `slow` is slow in the last."""
    builder = RunBuilder(folder, 4, ParallelLayout.from_sizes(dp=4))
    for number, step in enumerate([0, 1, 2, 3, 5, 30_000_000]):
        for rank in range(4):
            begin = number * 100
            builder.step(rank, step, begin, begin + 100)
            length = 80 if rank == slow and step == 30_000_000 else 50
            builder.span(rank, step, "forward", begin, begin + length)
    builder.rank_files()
    builder.publish()


def unpacked(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and meta of a binary answer, as assets/lib/arrays.mjs reads it."""
    size = int.from_bytes(content[:4], "little")
    header = json.loads(content[4 : 4 + size])
    arrays = {
        name: np.frombuffer(content, one["dtype"], one["length"], 4 + size + one["offset"])
        for name, one in header.pop("arrays").items()
    }
    return arrays, header
