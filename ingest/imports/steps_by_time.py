"""Steps of rows that have a time only, by the steps that the trace of the same run recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trace_hooks.schema import BEFORE_FIRST_STEP, SegmentName

_AFTER_LAST_NS = 3_600 * 10**9
"""A job may wait this long in a step that it never finished, and that no trace has therefore."""

Int64 = npt.NDArray[np.int64]


class StepsByTime:
    """The steps of a run that is being imported. `segments`: the folder of its rows."""

    def __init__(self, segments: Path) -> None:
        self._paths: dict[int, list[Path]] = {}
        """rank -> files with its steps"""
        for path in sorted(segments.iterdir()):
            segment = SegmentName.parse(path.name)
            if segment is not None and segment.table == "steps":
                self._paths.setdefault(segment.rank, []).append(path)
        self._steps: dict[int, tuple[Int64, Int64, int]] = {}

    def filled(self, rows: pa.Table) -> pa.Table:
        """The rows, each with the step that its rank had begun last; rank -1: the lowest rank.

        What lies before the first step, long after the last one, or has no time stays outside.
        """
        if not self._paths:
            return rows
        ranks = rows.column("rank").to_numpy()
        ts_ns = rows.column("ts_ns").to_numpy()
        steps = rows.column("step").to_numpy().copy()
        for rank in np.unique(ranks).tolist():
            begins_ns, numbers, until_ns = self._steps_of(rank)
            is_of_rank = ranks == rank
            at = np.searchsorted(begins_ns, ts_ns[is_of_rank], side="right") - 1
            is_inside = (at >= 0) & (ts_ns[is_of_rank] <= until_ns)
            steps[is_of_rank] = np.where(is_inside, numbers[at], BEFORE_FIRST_STEP)
        index = rows.schema.get_field_index("step")
        field = rows.schema.field(index)
        return rows.set_column(index, field, pa.array(steps, field.type))

    def _steps_of(self, rank: int) -> tuple[Int64, Int64, int]:
        """Begins in order, numbers of the steps, and the time after which no step counts."""
        known = rank if rank in self._paths else min(self._paths)
        if known not in self._steps:
            columns = ["start_ns", "dur_ns", "step"]
            table = pa.concat_tables(pq.read_table(p, columns=columns) for p in self._paths[known])
            start_ns, dur_ns, numbers = (table.column(name).to_numpy() for name in columns)
            order = np.argsort(start_ns, kind="stable")
            until_ns = int((start_ns + dur_ns).max(initial=0)) + _AFTER_LAST_NS
            self._steps[known] = start_ns[order], numbers[order].astype(np.int64), until_ns
        return self._steps[known]
