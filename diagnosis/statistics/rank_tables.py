"""Answers with a row per rank and step as matrices, and where the ranks sit.

Shape suffixes: R ranks, S steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

AXES = ("pp", "dp", "cp", "tp", "ep")


@dataclass(frozen=True)
class Ranks:
    """Ranks that left finished steps, sorted, and where they sit; -1 is an unknown coordinate."""

    rank_R: Ints
    coords_R: dict[str, Ints]
    host_R: list[str | None]
    on_cpu: bool
    world_size: int

    @property
    def has_roles(self) -> bool:
        """Whether the layout is known at all: else peers may have other roles."""
        return any(bool((index_R >= 0).any()) for index_R in self.coords_R.values())


def spread_cells(table: pa.Table) -> tuple[Ints, Ints, dict[str, Floats]]:
    """Sorted ranks and steps of a table with one row per (rank, step), and its other columns.

    Those are matrices (ranks, steps), NaN where there is no row.
    """
    rank_R, row = np.unique(_ints(table, "rank"), return_inverse=True)
    step_S, column = np.unique(_ints(table, "step"), return_inverse=True)
    cells = {}
    for name in table.column_names:
        if name not in ("rank", "step"):
            cells[name] = np.full((rank_R.size, step_S.size), np.nan)
            cells[name][row, column] = _floats(table, name)
    return rank_R, step_S, cells


def placed(rank_R: Ints, places: pa.Table) -> Ranks:
    """Where the ranks sit, of the question `rank_places`."""
    rows = {row["rank"]: row for row in places.to_pylist()}
    rows_R = [rows.get(int(rank), {}) for rank in rank_R]
    coords_R = {
        axis: np.array([-1 if row.get(axis) is None else row[axis] for row in rows_R], np.int64)
        for axis in AXES
    }
    world = max((row["world_size"] or 0 for row in rows.values()), default=0)
    on_cpu = bool(rows_R) and all((row.get("device") or "").startswith("cpu") for row in rows_R)
    return Ranks(
        rank_R, coords_R, [row.get("host") for row in rows_R], on_cpu, max(world, len(rows))
    )


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table.column(name).to_numpy(), np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table.column(name).cast(pa.float64()).to_numpy(), np.float64)
