"""Statistics of a model's tensors, layers x steps, pooled to the size of the picture.

A block of cells shows its worst value (Statistic.worst), so that a single bad step among thousands
stays visible.

Shape suffixes: R row (layer and part of it), S step, H drawn row, W drawn column, B histogram bin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.views.model.step_axes import Axis, edges_on
from app.views.model.tensor_levels import HEADS, STATISTICS, Statistic
from app.views.ranks.heat_map import edges
from app.views.ranks.scales import Floats, Ints
from ingest.errors import UserError
from ingest.run import Run
from ingest.stopping import Stop

Steps = tuple[int, int]
"""First and last, both included."""

MOST_ROWS = 1_000_000
"""Rows of tensor_stats read for one map; of longer runs the newest or the requested steps."""
MOST_CELLS = 2_000_000
NUM_BINS, FIRST_EXPONENT = 64, -40
_LAYER = re.compile(r"(?:^|\.)[0-9]+(?:\.|$)")


@dataclass(frozen=True)
class Row:
    """One row of the map. `layer`: in the whole model, -1 outside of layers; `head`: -1 for
    none.
    """

    layer: int
    name: str
    head: int = -1

    @property
    def part(self) -> str:
        """The part of the layer: the name after the layer's number; outside of layers the whole
        name.
        """
        return self.name if self.layer < 0 else _LAYER.split(self.name, maxsplit=1)[-1]

    @property
    def key(self) -> str:
        """The row's key in links."""
        end = f".h{self.head}" if self.head >= 0 else f".{self.part}" if self.part else ""
        return f"{self.layer}{end}"


@dataclass(frozen=True)
class TensorMap:
    """All statistics of one tensor, NaN where there is none."""

    tensor: str
    rows: tuple[Row, ...]
    steps_S: Ints
    values: dict[str, Floats]
    """R x S by name of the statistic"""
    is_cut: bool
    """only some steps, as the run is too long to be read completely"""


def tensor_map(
    run: Run, tensor: str, attempt: int | None, steps: Steps | None, stop: Stop | None = None
) -> TensorMap:
    """All steps of a tensor, or some of them; raises UserError."""
    window, is_cut = _fitting(run, tensor, attempt, steps)
    values: dict[str, Any] = {"attempt": attempt, "step_min": window[0], "step_max": window[1]}
    if tensor == HEADS:
        table = run.ask("attention_health", stop=stop, **values)
    else:
        table = run.ask("tensor_health", stop=stop, tensor=tensor, **values)
    return _mapped(tensor, table, is_cut)


def _fitting(run: Run, tensor: str, attempt: int | None, steps: Steps | None) -> tuple[Steps, bool]:
    """Steps that can be read at once, by the average number of rows of a step."""
    [row] = run.index_rows(
        "SELECT sum(num_rows)::BIGINT AS num_rows, min(step_min) AS first, max(step_max) AS last"
        " FROM files WHERE table_name = $table AND attempt = $attempt AND problem IS NULL",
        table="attention_stats" if tensor == HEADS else "tensor_stats",
        attempt=run.newest_attempt if attempt is None else attempt,
    )
    first, last, num_rows = row["first"], row["last"], row["num_rows"]
    if not num_rows:
        return (0, -1), False
    low, high = (max(first, steps[0]), min(last, steps[1])) if steps else (first, last)
    most = max(1, int(MOST_ROWS * (last - first + 1) / num_rows))
    return (max(low, high - most + 1), high), high - low + 1 > most


def _mapped(tensor: str, table: pa.Table, is_cut: bool) -> TensorMap:
    columns = {name: table.column(name) for name in table.column_names}
    rows, row_N = _rows(columns, table.num_rows)
    step_N = columns["step"].to_numpy().astype(np.int64)
    steps_S, column_N = np.unique(step_N, return_inverse=True)
    values = {}
    for name, statistic in STATISTICS.items():
        if name in columns and statistic.is_of(tensor):
            value_RS = np.full((len(rows), len(steps_S)), np.nan, dtype=np.float32)
            rounded = columns[name].cast(pa.float64(), safe=False)
            value_RS[row_N, column_N] = rounded.to_numpy(zero_copy_only=False).astype(np.float32)
            values[name] = value_RS
    return TensorMap(tensor, tuple(rows), steps_S, values, is_cut)


def _rows(columns: dict[str, pa.ChunkedArray], count: int) -> tuple[list[Row], Ints]:
    """The rows of the map in order, and the row of each of `count` answers."""
    names = columns["name"].combine_chunks().dictionary_encode()
    layer_N = columns["layer"].to_numpy().astype(np.int64)
    none_N = np.full(count, -1)
    head_N = columns["head"].to_numpy().astype(np.int64) if "head" in columns else none_N
    key_N3 = np.stack([layer_N, head_N, names.indices.to_numpy().astype(np.int64)], axis=1)
    keys, row_N = np.unique(key_N3, axis=0, return_inverse=True)
    texts = names.dictionary.to_pylist()
    rows = [Row(int(layer), texts[name], int(head)) for layer, head, name in keys]
    order = sorted(range(len(rows)), key=lambda index: _sort_key(rows[index]))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(len(rows))
    return [rows[index] for index in order], rank[row_N.reshape(-1)]


def _sort_key(row: Row) -> tuple[bool, int, int, str]:
    """Rows are in the order of the layers; rows outside of layers are last."""
    return row.layer < 0, row.layer, row.head, row.name


def pooled(value_RS: Floats, worst: str, rows_H: Ints, columns_W: Ints) -> Floats:
    """The worst value of each block; NaN if none was recorded."""
    if value_RS.size == 0:
        return np.zeros((0, 0), dtype=np.float32)

    def blocks(reduce: np.ufunc) -> Floats:
        value_HS: Floats = reduce.reduceat(value_RS, rows_H[:-1], axis=0)
        return reduce.reduceat(value_HS, columns_W[:-1], axis=1)  # type: ignore[no-any-return]

    if worst == "max":
        return blocks(np.fmax)
    if worst == "min":
        return blocks(np.fmin)
    most, least = blocks(np.fmax), blocks(np.fmin)
    return np.where(np.abs(least) > np.abs(most), least, most)


def drawn(
    tensors: TensorMap, statistic: Statistic, height: int, width: int, axis: Axis | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and meta for the browser, at most height x width cells; raises UserError.

    With an `axis` columns are equally wide on it, and `place` has where each stands.
    """
    if height < 1 or width < 1 or height * width > MOST_CELLS:
        raise UserError(f"a map of {height} x {width} cells cannot be drawn; request a smaller one")
    value_RS = tensors.values.get(statistic.name, np.zeros((0, 0), dtype=np.float32))
    steps_S = tensors.steps_S[: value_RS.shape[1]].astype(np.float64)
    rows_H, columns_W = edges(value_RS.shape[0], height), _columns(steps_S, width, axis)
    value_HW = pooled(value_RS, statistic.worst, rows_H, columns_W)
    arrays = {
        "value": np.ascontiguousarray(value_HW).reshape(-1).astype(np.float32),
        "rows": rows_H.astype(np.uint32),
        "columns": columns_W.astype(np.uint32),
        **_steps_of(steps_S, columns_W, axis),
        **_extremes(value_RS, steps_S, statistic),
    }
    meta = {
        "tensor": tensors.tensor,
        "statistic": statistic.to_json(tensors.tensor),
        "height": value_HW.shape[0],
        "width": value_HW.shape[1],
        "num_steps": len(steps_S),
        "is_cut": tensors.is_cut,
        "axis": axis.to_json() if axis else None,
        "rows": [
            {
                "key": row.key,
                "layer": row.layer,
                "part": row.part,
                "head": row.head,
                "name": row.name,
            }
            for row in tensors.rows
        ],
    }
    return arrays, meta


def _columns(steps_S: npt.NDArray[np.float64], width: int, axis: Axis | None) -> Ints:
    """First step of each drawn column, and the end."""
    return edges_on(axis.places(steps_S), width) if axis else edges(len(steps_S), width)


def _steps_of(
    steps_S: npt.NDArray[np.float64], columns_W: Ints, axis: Axis | None
) -> dict[str, np.ndarray]:
    """First and last step of each column, and its middle on the axis if there is one."""
    if not steps_S.size:
        first_W = last_W = steps_S
    else:
        first_W, last_W = steps_S[columns_W[:-1]], steps_S[columns_W[1:] - 1]
    arrays = {"first_step": first_W, "last_step": last_W}
    if axis is not None:
        arrays["place"] = (axis.places(first_W) + axis.places(last_W)) / 2
    return arrays


def _extremes(
    value_RS: Floats, steps_S: npt.NDArray[np.float64], statistic: Statistic
) -> dict[str, np.ndarray]:
    """Last, least and greatest value of each row, and the step of the worst, for the table."""
    num_rows = value_RS.shape[0]
    if value_RS.size == 0:
        none = np.full(num_rows, np.nan, dtype=np.float32)
        return dict.fromkeys(("last", "least", "greatest", "worst_step"), none)
    is_known_RS = ~np.isnan(value_RS)
    last_R = value_RS.shape[1] - 1 - np.argmax(is_known_RS[:, ::-1], axis=1)
    size_RS = np.abs(value_RS) if statistic.worst == "size" else value_RS
    sign = -1 if statistic.worst == "min" else 1
    worst_R = np.argmax(np.where(is_known_RS, sign * size_RS, -np.inf), axis=1)
    worst_step_R = np.where(is_known_RS.any(axis=1), steps_S[worst_R], np.nan)
    return {
        "last": value_RS[np.arange(num_rows), last_R],
        "least": np.fmin.reduce(value_RS, axis=1),
        "greatest": np.fmax.reduce(value_RS, axis=1),
        "worst_step": worst_step_R,
    }


def histogram(
    run: Run,
    tensor: str,
    row: Row,
    attempt: int | None,
    steps: Steps | None,
    width: int,
    axis: Axis | None = None,
    stop: Stop | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Magnitudes of a row's values over the steps: shares, averaged over the steps of a column.

    Arrays: share (bin by bin, from 2^FIRST_EXPONENT), first_step, last_step; with an `axis` also
    place, as in `drawn`.
    """
    window, is_cut = _fitting(run, tensor, attempt, steps)
    table = run.ask(
        "tensor_histogram",
        tensor=tensor,
        layer=row.layer,
        module=row.name,
        attempt=attempt,
        step_min=window[0],
        step_max=window[1],
        stop=stop,
    )
    step_N = table.column("step").to_numpy().astype(np.int64)
    steps_S, column_N = np.unique(step_N, return_inverse=True)
    share_BS = np.zeros((NUM_BINS, len(steps_S)), dtype=np.float32)
    bin_N = table.column("exponent").to_numpy().astype(np.int64) - FIRST_EXPONENT
    share_BS[bin_N, column_N] = table.column("share").to_numpy()
    steps_S = steps_S.astype(np.float64)
    columns_W = _columns(steps_S, max(1, min(width, MOST_CELLS // NUM_BINS)), axis)
    share_BW = share_BS
    if len(steps_S):
        share_BW = np.add.reduceat(share_BS, columns_W[:-1], axis=1) / np.diff(columns_W)
    arrays = {
        "share": share_BW.astype(np.float32).reshape(-1),
        **_steps_of(steps_S, columns_W, axis),
    }
    meta = {
        "width": share_BW.shape[1],
        "first_exponent": FIRST_EXPONENT,
        "is_cut": is_cut,
        "axis": axis.to_json() if axis else None,
    }
    return arrays, meta
