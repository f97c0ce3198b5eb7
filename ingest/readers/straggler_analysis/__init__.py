"""ByteDance's StragglerAnalysis traces: one Parquet file of operations and a yaml of sizes.

Format: https://github.com/ByteDance-Seed/StragglerAnalysis. One row is one operation of one
(dp_rank, stage) cell in one sampled step; times are float32 seconds since the step's first
operation; of the tensor- and context-parallel ranks of a cell only the first one is there.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import UserError
from ingest.readers.base import Format, Sink
from ingest.readers.parsing.sources import Source
from ingest.readers.straggler_analysis.operations import Operations, with_indices, with_times
from ingest.readers.straggler_analysis.sizes import sizes_in, sizes_in_folder, sizes_in_metadata
from ingest.readers.tables.staged_rows import StagedRows
from trace_hooks.layout import ParallelLayout

FORMAT = Format(
    "straggler_analysis", "StragglerAnalysis", layout_from="coordinates", is_operation_trace=True
)

_COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id")
_OPTIONAL = ("mb_id", "gmc", "mc")


def recognises(source: Source) -> bool:
    """Whether it is such a Parquet file, or the yaml that goes with one."""
    if source.head[:4] == b"PAR1":
        # column names stand in the footer, of which the head of a large file shows nothing
        try:
            with pq.ParquetFile(source.path or io.BytesIO(source.head)) as file:
                return set(_COLUMNS) <= set(file.schema_arrow.names)
        except (pa.ArrowException, OSError):
            return False
    return sizes_in(source.head) is not None


@dataclass
class _Trace:
    """One Parquet file; without rows where it is damaged."""

    name: str
    table: bytes = b""
    """its rows as an Arrow stream"""
    own_sizes: dict[str, int] | None = None
    sizes_in_folder: dict[str, dict[str, int]] = field(default_factory=dict)
    """by the path of each yaml in its folder"""


@dataclass
class _Sizes:
    """One yaml."""

    name: str
    sizes: dict[str, int]


def read(source: Source, staged: StagedRows) -> _Trace | _Sizes:
    """Read the operations or the sizes."""
    sizes = sizes_in(source.head)
    if sizes is not None:
        return _Sizes(source.name, sizes)
    trace = _Trace(source.name)
    try:
        data = source.path or io.BytesIO(b"".join(iter(lambda: source.read(1 << 20), b"")))
        with pq.ParquetFile(data) as file:
            names = [n for n in (*_COLUMNS, *_OPTIONAL) if n in file.schema_arrow.names]
            table = file.read(columns=names)
            table.validate(full=True)  # what is damaged must not be met later, outside of here
            trace.table = _arrow_stream(table)
            trace.own_sizes = sizes_in_metadata(file.schema_arrow.metadata or {})
    except (pa.ArrowException, OSError) as error:
        staged.add_problem(f"{source.name}: damaged Parquet: {' '.join(str(error).split())}")
    if source.path is not None:
        trace.sizes_in_folder = sizes_in_folder(source.path)
    return trace


class Import:
    """One import: one Parquet file, and its yaml where the user gave a folder."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._traces: list[_Trace] = []
        self._sizes: dict[str, dict[str, int]] = {}

    def add_file(self, file: _Trace | _Sizes) -> None:
        """The operations or the sizes."""
        if isinstance(file, _Sizes):
            self._sizes[file.name] = file.sizes
        else:
            self._traces.append(file)

    def finish(self) -> None:
        """Write the one trace; raises UserError where there are several."""
        if len(self._traces) > 1:
            listed = ", ".join(trace.name for trace in self._traces)
            raise UserError(
                f"these files are {len(self._traces)} separate traces; import one of them: {listed}"
            )
        if not self._traces:
            for name in self._sizes:
                self._sink.add_problem(
                    f"{name} holds the sizes of a trace that was not given; import its Parquet "
                    "file as well"
                )
            return
        trace = self._traces[0]
        if not trace.table:
            return
        try:
            operations = self._operations(trace.name, pa.ipc.open_stream(trace.table).read_all())
        except (pa.ArrowException, ValueError) as error:
            reason = " ".join(str(error).split())
            self._sink.add_problem(
                f"{trace.name}: columns of other types than a trace has: {reason}"
            )
            return
        sizes = self._own_sizes(trace)
        layout = self._layout(sizes, operations)
        self._sink.set_clock("per_step_relative")
        for rank in np.unique(operations.rank_N).tolist():
            operations.write(self._sink, rank, layout, sizes)

    def _operations(self, name: str, all_rows: pa.Table) -> Operations:
        """The operations that a trace can have; the others are reported."""
        timed = with_times(all_rows)
        placed = with_indices(timed)
        for lost, of in (
            (all_rows.num_rows - timed.num_rows, "no time"),
            (timed.num_rows - placed.num_rows, "an impossible rank, step or stage"),
        ):
            if lost:
                self._sink.add_problem(
                    f"{name}: {lost:,} operations left out because they have {of}"
                )
        return Operations(placed)

    def _own_sizes(self, trace: _Trace) -> Mapping[str, int]:
        """Sizes from the Parquet metadata, else from the yaml that was given or found."""
        if trace.own_sizes is not None:
            return trace.own_sizes
        name, candidates = trace.name, self._sizes or trace.sizes_in_folder
        same_trial = [text for text in candidates if _trial(text) == _trial(name)]
        if len(same_trial) == 1:
            return candidates[same_trial[0]]
        if len(candidates) == 1:
            used = next(iter(candidates))
            self._sink.add_guess(f"{name}: sizes are taken from {used}, whose name differs")
            return candidates[used]
        self._sink.add_guess(
            f"{name}: no yaml with its sizes was found, so the layout is unknown; `rankscope "
            "layout` can set it"
        )
        return {}

    def _layout(self, sizes: Mapping[str, int], operations: Operations) -> ParallelLayout | None:
        if not sizes:
            return None
        axes = [("pp", sizes["pp_size"]), ("dp", sizes["dp_size"])]
        if sizes.get("dsp_size", 1) > 1:
            axes.append(("cp", sizes["dsp_size"]))
        try:
            layout = ParallelLayout((*axes, ("tp", sizes["tp_size"])))
            fits = operations.fits(layout)
        except ValueError as error:
            self._sink.add_problem(f"the sizes do not give a layout: {error}")
            return None
        if not fits or layout.world_size != sizes.get("world_size", layout.world_size):
            self._sink.add_problem(
                f"the sizes ({layout}, world {sizes.get('world_size')}) do not fit the ranks of "
                "the trace, so the layout is unknown; `rankscope layout` can set it"
            )
            return None
        return layout


def _arrow_stream(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def _trial(name: str) -> str:
    """What names of one trial share: trace-ST.parquet and meta-ST.yaml share ST."""
    stem = Path(name).stem
    return stem.partition("-")[2] or stem
