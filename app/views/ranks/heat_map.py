"""Heat maps: rank x step and host x rank in host, pooled to the size of the picture.

A block of cells shows its greatest deviation from the peers (bytes of app.views.ranks.scales are
ordered by it), so that a single straggler among thousands of ranks stays visible.

Shape suffixes: R row of the whole map, S step, H drawn row, W drawn column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.views.ranks import scales
from app.views.ranks.metric_matrix import Cells
from app.views.ranks.rank_places import Places
from app.views.ranks.scales import Bytes, Floats, Ints
from diagnosis.statistics.natural_order import natural
from ingest.errors import UserError

ORDERS = ("rank", "place", "host")
"""Rows by global rank; by (pp, dp, cp, tp); by host."""
MOST_CELLS = 2_000_000
VALUES_UP_TO = 40_000
"""Maps up to this size include their values; for larger ones the page requests single cells."""
NUM_WORST = 20

Window = tuple[int, int]
"""first and last, both included"""


def row_order(order: str, places: Places) -> Ints:
    """Rows of the cells in the order they are drawn; raises UserError."""
    if order not in ORDERS:
        raise UserError(
            f"rows cannot be ordered by {order[:40]!r}; choose one of {', '.join(ORDERS)}"
        )
    if order == "place":
        axes = [places.coords[axis] for axis in ("tp", "cp", "dp", "pp")]
        return np.lexsort((places.rank_R, *axes))
    if order == "host":
        names = {name: number for number, name in enumerate(sorted(set(places.hosts), key=natural))}
        return np.lexsort((places.rank_R, [names[host] for host in places.hosts]))
    return np.arange(len(places.rank_R))


def row_marks(order: str, places: Places) -> list[tuple[int, str]]:
    """Positions at which a new stage or host begins, with its name; empty for rows by rank."""
    rows_R = row_order(order, places)
    if order == "place":
        names = [f"pp {index}" for index in places.coords["pp"][rows_R]]
        if (places.coords["pp"] < 0).any():
            return []
    elif order == "host":
        names = [places.hosts[row] for row in rows_R]
    else:
        return []
    return [
        (position, name)
        for position, name in enumerate(names)
        if position == 0 or name != names[position - 1]
    ]


def edges(count: int, most: int) -> Ints:
    """First cell of each of at most `most` blocks of nearly equal size, and the end."""
    num = max(1, min(count, most))
    return np.arange(num + 1) * count // num


def pooled(code_RS: Bytes, height: int, width: int) -> tuple[Bytes, Ints, Ints]:
    """The greatest byte of each block, and the edges of the blocks along rows and steps."""
    rows_H, columns_W = edges(code_RS.shape[0], height), edges(code_RS.shape[1], width)
    if code_RS.size == 0:
        return np.zeros((0, 0), dtype=np.uint8), rows_H, columns_W
    code_HW = code_RS
    if len(rows_H) - 1 < code_RS.shape[0]:
        code_HW = np.maximum.reduceat(code_HW, rows_H[:-1], axis=0)
    if len(columns_W) - 1 < code_RS.shape[1]:
        code_HW = np.maximum.reduceat(code_HW, columns_W[:-1], axis=1)
    return np.ascontiguousarray(code_HW), rows_H, columns_W


@dataclass(frozen=True)
class HeatMap:
    """A picture: bytes, and the ranks and steps that they represent."""

    code_HW: Bytes
    rank_R: Ints
    """global ranks of the window's rows, in order"""
    rows_H: Ints
    """edges of the drawn rows, as positions in rank_R"""
    columns_W: Ints
    """edges of the drawn columns, as positions among the window's steps"""
    first_W: Ints
    """number of the first step of each drawn column: numbers may have gaps"""
    last_W: Ints
    rows: Window
    """positions of the window among all rows"""
    num_rows: int
    all_steps: Window
    marks: list[tuple[int, str]]
    """see row_marks"""
    value_RS: Floats | None
    """values and peers' medians if nothing is pooled and the map is small"""
    peers_RS: Floats | None

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays for app.web.arrays.pack_arrays."""
        arrays = {
            "code": self.code_HW.reshape(-1),
            "rank": self.rank_R.astype(np.uint32),
            "rows": self.rows_H.astype(np.uint32),
            "columns": self.columns_W.astype(np.uint32),
            "first_step": self.first_W.astype(np.float64),
            "last_step": self.last_W.astype(np.float64),
        }
        if self.value_RS is not None and self.peers_RS is not None:
            arrays["value"] = self.value_RS.reshape(-1)
            arrays["peers"] = self.peers_RS.reshape(-1)
        return arrays

    def meta(self) -> dict[str, Any]:
        """The metadata: sizes, windows and marks."""
        return {
            "height": self.code_HW.shape[0],
            "width": self.code_HW.shape[1],
            "rows": list(self.rows),
            "num_rows": self.num_rows,
            "all_steps": list(self.all_steps),
            "marks": [{"at": position, "label": label} for position, label in self.marks],
        }


def heat_map(
    cells: Cells,
    order: str = "rank",
    rows: Window | None = None,
    steps: Window | None = None,
    height: int = 600,
    width: int = 1200,
) -> HeatMap:
    """The window rows x steps of the map, pooled to at most height x width; raises UserError."""
    if height < 1 or width < 1 or height * width > MOST_CELLS:
        raise UserError(f"a map of {height} x {width} cells cannot be drawn; request a smaller one")
    order_R = row_order(order, cells.places)
    first, last = _within(rows, (0, len(order_R) - 1))
    columns = _columns(cells, steps)
    steps_S, shown_R = cells.steps_S[columns], order_R[first : last + 1]
    plain = order == "rank"
    code_RS = cells.code_RS[first : last + 1] if plain else cells.code_RS[shown_R]
    code_HW, rows_H, columns_W = pooled(code_RS[:, columns], height, width)
    whole = code_HW.shape == (len(shown_R), len(steps_S)) and code_HW.size <= VALUES_UP_TO
    drawn = len(steps_S) > 0
    return HeatMap(
        code_HW,
        cells.places.rank_R[shown_R],
        rows_H,
        columns_W,
        steps_S[columns_W[:-1]] if drawn else steps_S,
        steps_S[columns_W[1:] - 1] if drawn else steps_S,
        (first, last),
        len(order_R),
        (int(cells.steps_S[0]), int(cells.steps_S[-1])) if drawn else (0, -1),
        row_marks(order, cells.places),
        cells.value_RS[shown_R, columns] if whole else None,
        cells.peers_RS[shown_R, columns] if whole else None,
    )


def _columns(cells: Cells, steps: Window | None) -> slice:
    """Columns of the steps; all columns if the map has none of them."""
    columns = cells.columns(steps) if steps else slice(0, 0)
    return columns if columns.start < columns.stop else slice(0, len(cells.steps_S))


def _within(window: Window | None, whole: Window) -> Window:
    """The part of a window inside the whole; the whole if they do not overlap."""
    low, high = window or whole
    low, high = max(low, whole[0]), min(high, whole[1])
    return (low, high) if low <= high else whole


@dataclass(frozen=True)
class Cell:
    """One cell with its numbers; None if it was not recorded."""

    rank: int
    step: int
    value: float | None
    peers_ms: float | None
    code: int


def _cell(cells: Cells, row: int, column: int) -> Cell:
    value, peers = float(cells.value_RS[row, column]), float(cells.peers_RS[row, column])
    return Cell(
        int(cells.places.rank_R[row]),
        int(cells.steps_S[column]),
        None if np.isnan(value) else value,
        None if np.isnan(peers) else peers,
        int(cells.code_RS[row, column]),
    )


def furthest_cell(
    cells: Cells, order: str = "rank", rows: Window | None = None, steps: Window | None = None
) -> Cell | None:
    """The cell that gives a block its colour; among equals the one furthest from its peers."""
    shown_R = row_order(order, cells.places)
    first, last = _within(rows, (0, len(shown_R) - 1))
    if not cells.has_values:
        return None
    columns = _columns(cells, steps)
    block_R = shown_R[first : last + 1]
    code = cells.code_RS[block_R, columns]
    size = np.abs(np.nan_to_num(cells.deviation(np.s_[block_R, columns])))
    index = int(np.argmax(np.where(code == code.max(), size, -1)))
    row, column = divmod(index, code.shape[1])
    return _cell(cells, int(block_R[row]), columns.start + column)


def worst_cells(cells: Cells, steps: Window | None = None, most: int = NUM_WORST) -> list[Cell]:
    """The coloured cells furthest from their peers, worst first: the map's table."""
    if not cells.has_values:
        return []
    shown = _columns(cells, steps)
    low = shown.start
    rows, columns = np.nonzero(cells.code_RS[:, shown] > scales.IN_NOISE)
    size = np.abs(cells.deviation((rows, low + columns)))
    furthest = np.argsort(-size, kind="stable")[:most]
    return [_cell(cells, int(rows[index]), low + int(columns[index])) for index in furthest]
