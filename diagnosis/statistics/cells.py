"""Operations of StragglerAnalysis traces, ready to be replayed: more than one detector asks for it.

They stand for cells of a stage and a replica, and hold no waiting once they are prepared.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.statistics.peers import Ranks, placed
from diagnosis.whatif.analysis import Prepared, prepare
from diagnosis.whatif.operations import NotAnswerable, Sizes, dense
from diagnosis.whatif.uneven_compute import Pauses, pauses

CELLS = "whatif_ops"
"""Asked of StragglerAnalysis traces only: it reads all operations."""

_KNOWN: dict[int, Prepared | None] = {}
"""By identity of the answer, as long as it lives."""


def prepared_cells(tables: Mapping[str, pa.Table], ranks: Ranks) -> Prepared | None:
    """Cells of the answer of CELLS; None where it was not asked or makes no job."""
    operations = tables.get(CELLS)
    if operations is None or not operations.num_rows:
        return None
    key = id(operations)
    if key not in _KNOWN:
        weakref.finalize(operations, _KNOWN.pop, key, None)
        _KNOWN[key] = _prepared(operations, ranks)
    return _KNOWN[key]


def pauses_apart(tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """The tables with pauses of forwards (diagnosis/whatif/uneven_compute.py) counted as
    collections and not as compute: who compares compute is not to take a pause for work.
    """
    if CELLS not in tables or not {"rank_phases", "rank_places"} <= set(tables):
        return tables
    rank_R = np.unique(tables["rank_phases"]["rank"].to_numpy()).astype(np.int64)
    prepared = prepared_cells(tables, placed(rank_R, tables["rank_places"]))
    paused = None if prepared is None else pauses(prepared)
    if prepared is None or paused is None:
        return tables
    pause_ms = _by_rank(prepared, paused)
    shifts = {"rank_phases": ("compute_ms", "gc_ms"), "rank_work": ("compute_ms", None)}
    return {
        name: _shifted(table, pause_ms, *shifts[name]) if name in shifts else table
        for name, table in tables.items()
    }


def _by_rank(prepared: Prepared, paused: Pauses) -> dict[tuple[int, int], float]:
    """Pauses of each rank and step that has any, ms."""
    ops, found = prepared.ops, defaultdict[tuple[int, int], float](float)
    for at, step, dp in np.argwhere(paused.pause_NSD > 0).tolist():
        stage = int(ops.stage_O[paused.members[at]])
        key = int(ops.rank_PD[stage, dp]), int(ops.step_S[step])
        found[key] += 1e3 * float(paused.pause_NSD[at, step, dp])
    return found


def _shifted(
    table: pa.Table, pause_ms: Mapping[tuple[int, int], float], source: str, target: str | None
) -> pa.Table:
    """Pauses taken out of one column and added to another."""
    keys = zip(table["rank"].to_pylist(), table["step"].to_pylist(), strict=True)
    shift = pa.array([pause_ms.get(key, 0.0) for key in keys], pa.float64())
    changed = {source: pc.subtract(table[source], shift)}
    if target is not None:
        changed[target] = pc.add(table[target], shift)
    for name, column in changed.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def _prepared(operations: pa.Table, ranks: Ranks) -> Prepared | None:
    pp, dp, cp = (int(ranks.coords_R[axis].max(initial=0)) + 1 for axis in ("pp", "dp", "cp"))
    try:
        return prepare(dense(operations, Sizes(dp, pp, cp)))
    except NotAnswerable:
        return None
