"""Operations of StragglerAnalysis traces, prepared for a replay: several detectors read them.

Each operation belongs to a cell, a pipeline stage of one data-parallel replica; once prepared, its
duration holds no waiting for other cells.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diagnosis.statistics.rank_tables import Ranks
from diagnosis.whatif.analysis import Prepared, prepare
from diagnosis.whatif.operations import NotAnswerable, Sizes, dense
from diagnosis.whatif.uneven_compute import Pauses, pauses

CELLS = "whatif_ops"
"""The question that reads all operations: for StragglerAnalysis traces only."""


@dataclass(frozen=True)
class StragglerCells:
    """The cells of one trace; their pauses are computed once, when first read."""

    prepared: Prepared

    @cached_property
    def pauses(self) -> Pauses | None:
        """Pauses of forwards; None where there are too few."""
        return pauses(self.prepared)

    @cached_property
    def pause_ms(self) -> dict[tuple[int, int], float]:
        """Pauses of each rank and step that has any, ms."""
        if self.pauses is None:
            return {}
        ops, pause_NSD = self.prepared.ops, self.pauses.pause_NSD
        sums = defaultdict[tuple[int, int], float](float)
        for member, step, dp in np.argwhere(pause_NSD > 0).tolist():
            stage = int(ops.stage_O[self.pauses.members[member]])
            key = int(ops.rank_PD[stage, dp]), int(ops.step_S[step])
            sums[key] += 1e3 * float(pause_NSD[member, step, dp])
        return dict(sums)


_CACHE: dict[int, StragglerCells | None] = {}
"""By identity of the answer, as long as it lives."""


def straggler_cells(tables: Mapping[str, pa.Table], ranks: Ranks) -> StragglerCells | None:
    """Cells of the answer of CELLS; None where it was not asked or makes no job."""
    operations = tables.get(CELLS)
    if operations is None or not operations.num_rows:
        return None
    key = id(operations)
    if key not in _CACHE:
        weakref.finalize(operations, _CACHE.pop, key, None)
        _CACHE[key] = _cells(operations, ranks)
    return _CACHE[key]


def _cells(operations: pa.Table, ranks: Ranks) -> StragglerCells | None:
    pp, dp, cp = (int(ranks.coords_R[axis].max(initial=0)) + 1 for axis in ("pp", "dp", "cp"))
    try:
        return StragglerCells(prepare(dense(operations, Sizes(dp, pp, cp))))
    except NotAnswerable:
        return None


def without_pauses(answer: pa.Table, tables: Mapping[str, pa.Table], ranks: Ranks) -> pa.Table:
    """An answer of `tables` with pauses of forwards taken out of `compute_ms`, so that no pause is
    compared as work, and counted as garbage collection where the answer has `gc_ms`.

    Unchanged where the trace has no cells (every other format).
    """
    cells = straggler_cells(tables, ranks)
    if cells is None or not cells.pause_ms:
        return answer
    keys = zip(answer["rank"].to_pylist(), answer["step"].to_pylist(), strict=True)
    pause_ms = pa.array([cells.pause_ms.get(key, 0.0) for key in keys], pa.float64())
    shifted = _replaced(answer, "compute_ms", pc.subtract(answer["compute_ms"], pause_ms))
    if "gc_ms" not in answer.column_names:
        return shifted
    return _replaced(shifted, "gc_ms", pc.add(answer["gc_ms"], pause_ms))


def _replaced(answer: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return answer.set_column(answer.schema.get_field_index(name), name, column)
