"""ByteDance's StragglerAnalysis traces: one Parquet file of operations and a yaml of sizes.

Format: https://github.com/ByteDance-Seed/StragglerAnalysis. One row is one operation of one
(dp_rank, stage) cell in one sampled step; times are float32 seconds since the step's first
operation; of the tensor- and context-parallel ranks of a cell only the first one is there.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import UserError
from ingest.readers import Sink
from ingest.readers.inputs import Source
from ingest.readers.limits import limits
from ingest.readers.nesting import depths
from ingest.readers.rows import Coded, rank_info, rows
from ingest.readers.shelf import Shelf
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import UNKNOWN

NAME = "straggler_analysis"

KIND_BY_OPTYPE = {
    "forward-compute": "forward",
    "backward-compute": "backward",
    "forward-send": "pp_comm",
    "forward-recv": "pp_comm",
    "backward-send": "pp_comm",
    "backward-recv": "pp_comm",
    "params-all-gather": "dp_comm",
    "grads-reduce-scatter": "dp_comm",
    "separate-grads-all-reduce": "dp_comm",
    "layernorm-grads-all-reduce": "tp_comm",
    "embedding-grads-all-reduce": "pp_comm",
    "optimizer-clip-main-grad": "other_comm",  # the norm over the whole job: who is early waits
    "optimizer": "optimizer",
    "gc": "gc",
}
_DP_OPS = {
    "params-all-gather": "all_gather",
    "grads-reduce-scatter": "reduce_scatter",
    "separate-grads-all-reduce": "all_reduce",
}
_COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id")
_OPTIONAL = ("mb_id", "gmc", "mc")
_MAX_YAML_BYTES = 1 << 12
_MOST_BRACKETS = 64
"""PyYAML's time grows with the square of the depth; the sizes lie flat."""
_LONGEST_S = 2e9
_SIZES = ("dp_size", "pp_size", "tp_size", "dsp_size", "world_size")

Ints = npt.NDArray[np.int64]


_MOST = {"step": 2**53, "dp_rank": 2**17, "stage": 2**15, "gmc": 2**15, "mc": 2**15, "mb_id": 2**31}
"""Numbers from here on are damage."""


def recognises(source: Source) -> bool:
    """Whether it is such a Parquet file, or the yaml that goes with one."""
    if source.head[:4] == b"PAR1":
        # column names stand in the footer, of which the head of a large file shows nothing
        try:
            with pq.ParquetFile(source.path or io.BytesIO(source.head)) as file:
                return set(_COLUMNS) <= set(file.schema_arrow.names)
        except (pa.ArrowException, OSError):
            return False
    return _sizes_in(source.head) is not None


@dataclass
class _Trace:
    """One Parquet file; without rows where it is damaged."""

    name: str
    table: bytes = b""
    """its rows as an Arrow stream"""
    told_sizes: dict[str, int] | None = None
    sizes_beside: dict[str, dict[str, int]] = field(default_factory=dict)
    """by the path of each yaml in its folder"""


@dataclass
class _Sizes:
    """One yaml."""

    name: str
    sizes: dict[str, int]


def read(source: Source, shelf: Shelf) -> _Trace | _Sizes:
    """Read the operations or the sizes."""
    sizes = _sizes_in(source.head)
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
            trace.told_sizes = _sizes_in_metadata(file.schema_arrow.metadata or {})
    except (pa.ArrowException, OSError) as error:
        shelf.add_problem(f"{source.name}: damaged Parquet: {' '.join(str(error).split())}")
    if source.path is not None:
        for path in sorted(source.path.parent.glob("*.y*ml")):
            beside = _sizes_in(_beginning(path))
            if beside is not None:
                trace.sizes_beside[str(path)] = beside
    return trace


class Reading:
    """One import: one Parquet file, and its yaml where the user gave a folder."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._traces: list[_Trace] = []
        self._sizes: dict[str, dict[str, int]] = {}

    def take(self, found: _Trace | _Sizes) -> None:
        """The operations or the sizes."""
        if isinstance(found, _Sizes):
            self._sizes[found.name] = found.sizes
        else:
            self._traces.append(found)

    def finish(self) -> None:
        """Write the one trace; raises UserError where there are several."""
        if len(self._traces) > 1:
            listed = ", ".join(trace.name for trace in self._traces)
            raise UserError(
                f"these are {len(self._traces)} traces of their own, open one: {listed}"
            )
        if not self._traces:
            for name in self._sizes:
                self._sink.add_problem(f"{name} holds the sizes of a trace that is not here")
            return
        trace = self._traces[0]
        if not trace.table:
            return
        try:
            operations = self._operations(trace.name, pa.ipc.open_stream(trace.table).read_all())
        except (pa.ArrowException, ValueError) as error:
            said = " ".join(str(error).split())
            self._sink.add_problem(f"{trace.name}: columns of other types than a trace has: {said}")
            return
        sizes = self._own_sizes(trace)
        layout = self._layout(sizes, operations)
        self._sink.set_clock("per_step_relative")
        for rank in np.unique(operations.rank_N).tolist():
            operations.write(self._sink, rank, layout, sizes)

    def _operations(self, name: str, all_rows: pa.Table) -> _Operations:
        """The operations that a trace can have; the others are told."""
        timed = _with_times(all_rows)
        placed = _with_places(timed)
        for lost, of in (
            (all_rows.num_rows - timed.num_rows, "time"),
            (timed.num_rows - placed.num_rows, "rank, step or stage of any job"),
        ):
            if lost:
                self._sink.add_problem(f"{name}: {lost:,} operations without a {of} left out")
        return _Operations(placed)

    def _own_sizes(self, trace: _Trace) -> Mapping[str, int]:
        """Sizes from the Parquet metadata, else from the yaml that was given or lies beside."""
        if trace.told_sizes is not None:
            return trace.told_sizes
        name, candidates = trace.name, self._sizes or trace.sizes_beside
        same_trial = [text for text in candidates if _trial(text) == _trial(name)]
        if len(same_trial) == 1:
            return candidates[same_trial[0]]
        if len(candidates) == 1:
            used = next(iter(candidates))
            self._sink.add_guess(f"{name}: sizes are taken from {used}, whose name differs")
            return candidates[used]
        self._sink.add_guess(f"{name}: no yaml with its sizes was found: the layout is unknown")
        return {}

    def _layout(self, sizes: Mapping[str, int], operations: _Operations) -> ParallelLayout | None:
        if not sizes:
            return None
        axes = [("pp", sizes["pp_size"]), ("dp", sizes["dp_size"])]
        if sizes.get("dsp_size", 1) > 1:
            axes.append(("cp", sizes["dsp_size"]))
        try:
            layout = ParallelLayout((*axes, ("tp", sizes["tp_size"])))
            fits = operations.fits(layout)
        except ValueError as error:
            self._sink.add_problem(f"the sizes make no layout: {error}")
            return None
        if not fits or layout.world_size != sizes.get("world_size", layout.world_size):
            self._sink.add_problem(
                f"the sizes ({layout}, world {sizes.get('world_size')}) do not fit the ranks of "
                "the trace: the layout is unknown"
            )
            return None
        return layout


class _Operations:
    """The N operations of a trace as arrays; times in ns since the first operation of the step."""

    def __init__(self, table: pa.Table) -> None:
        def ints(name: str) -> Ints:
            if name not in table.column_names:
                return np.full(table.num_rows, UNKNOWN, np.int64)
            return np.asarray(table[name].cast(pa.int64()), np.int64)

        self.rank_N, self.step_N = ints("rank"), ints("step")
        self.dp_N, self.stage_N, self.seq_N = ints("dp_rank"), ints("stage"), ints("seq_id")
        self.microbatch_N = ints("mb_id")
        self.ts_ns_N, self.dur_ns_N = _ns(table["start_ts"]), _ns(table["duration"])
        coded = table["optype"].combine_chunks().cast(pa.string()).dictionary_encode()
        self.optypes: list[str] = coded.dictionary.to_pylist()
        self.optype_N = np.asarray(coded.indices, np.int64)
        self.kinds = [KIND_BY_OPTYPE.get(optype, "host") for optype in self.optypes]
        self.chunk_N = self._chunks(ints("gmc"), ints("mc"))
        computes = [optype.endswith("-compute") for optype in self.optypes]
        # in this format micro-batches mean something on compute only
        self.microbatch_N = np.where(np.array(computes)[self.optype_N], self.microbatch_N, UNKNOWN)

    def _chunks(self, virtual_N: Ints, chunk_N: Ints) -> Ints:
        """Virtual stages; data-parallel operations name only the chunk inside their stage."""
        is_dp = np.array([optype in _DP_OPS for optype in self.optypes], np.bool_)
        named_N = is_dp[self.optype_N] & (virtual_N < 0) & (chunk_N >= 0)
        num_stages = self.stage_N.max(initial=0) + 1
        return np.where(named_N, chunk_N * num_stages + self.stage_N, virtual_N)

    def fits(self, layout: ParallelLayout) -> bool:
        """Whether every cell's rank is the first rank of that cell in the layout."""
        cells = np.unique(np.stack([self.rank_N, self.dp_N, self.stage_N]), axis=1)
        return all(
            layout.coords(rank) == layout.coords(rank) | {"dp": dp, "pp": stage, "tp": 0}
            for rank, dp, stage in cells.T.tolist()
        )

    def write(
        self, sink: Sink, rank: int, layout: ParallelLayout | None, sizes: Mapping[str, int]
    ) -> None:
        """Spans, steps and data-parallel collectives of one rank."""
        N = np.flatnonzero(self.rank_N == rank)
        N = N[np.lexsort((self.ts_ns_N[N], self.step_N[N]))]
        step_N, ts_ns_N, dur_ns_N = self.step_N[N], self.ts_ns_N[N], self.dur_ns_N[N]
        tracks = [_track(optype) for optype in self.optypes]
        track_texts = sorted(set(tracks))
        track_N = np.array([track_texts.index(t) for t in tracks])[self.optype_N[N]]
        steps = np.unique(step_N)
        lane_N = np.searchsorted(steps, step_N) * len(track_texts) + track_N
        world_size = sizes.get("world_size", UNKNOWN)
        sink.add_rank(rank_info(rank, world_size=world_size, layout=layout))
        columns = {
            "rank": rank,
            "step": step_N,
            "ts_ns": ts_ns_N,
            "dur_ns": dur_ns_N,
            "kind": Coded(self.optype_N[N], self.kinds),
            "name": Coded(self.optype_N[N], self.optypes),
            "track": Coded(track_N, track_texts),
            "depth": depths(lane_N, ts_ns_N, dur_ns_N),
            "microbatch": self.microbatch_N[N],
            "chunk": self.chunk_N[N],
        }
        sink.add_rows("spans", rank, rows("spans", len(N), columns))
        start_ns = [int(ts_ns_N[step_N == step].min()) for step in steps]
        end_ns = [int((ts_ns_N + dur_ns_N)[step_N == step].max()) for step in steps]
        step_columns = {
            "rank": rank,
            "step": steps,
            "start_ns": start_ns,
            "dur_ns": np.array(end_ns) - np.array(start_ns),
        }
        sink.add_rows("steps", rank, rows("steps", len(steps), step_columns))
        if layout is not None and layout.size("dp") > 1 and layout.size("cp") == 1:
            self._write_collectives(sink, rank, layout, N)

    def _write_collectives(self, sink: Sink, rank: int, layout: ParallelLayout, N: Ints) -> None:
        """Operations over all data-parallel ranks of a stage, numbered alike on every member."""
        is_dp_op = np.array([optype in _DP_OPS for optype in self.optypes])
        N = N[is_dp_op[self.optype_N[N]]]
        if not len(N):
            return
        members = next(group for group in layout.groups("dp") if rank in group)
        digest = hashlib.sha256(f"dp|{members}".encode()).digest()
        group_id = int.from_bytes(digest[:8], "big") >> 1
        by_name = np.argsort(np.argsort(self.optypes))  # the dictionary's own order is accidental
        order = np.lexsort((self.seq_N[N], by_name[self.optype_N[N]], self.step_N[N]))
        N = N[order]
        columns = {
            "rank": rank,
            "step": self.step_N[N],
            "group_id": group_id,
            "seq": np.arange(len(N)),
            "op": [_DP_OPS[self.optypes[code]] for code in self.optype_N[N].tolist()],
            "enqueue_ns": self.ts_ns_N[N],
            "start_ns": self.ts_ns_N[N],
            "end_ns": self.ts_ns_N[N] + self.dur_ns_N[N],
            "state": "completed",
            "source": NAME,
        }
        sink.add_rows("collectives", rank, rows("collectives", len(N), columns))
        group = {"rank": rank, "group_id": group_id, "axis": "dp", "ranks": [list(members)]}
        sink.add_rows("groups", rank, rows("groups", 1, group))


def _arrow_stream(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def _with_times(table: pa.Table) -> pa.Table:
    """The operations whose start and duration are numbers that nanoseconds can hold."""
    import pyarrow.compute as pc  # here: every reading process would pay for it

    usable = [
        pc.less(pc.abs(pc.cast(table[name], pa.float64())), _LONGEST_S)
        for name in ("start_ts", "duration")
    ]
    return table.filter(pc.and_(*usable))


def _with_places(table: pa.Table) -> pa.Table:
    """The operations whose numbers a job can have."""
    import pyarrow.compute as pc  # here: every reading process would pay for it

    usable = []
    for name, most in _MOST.items():
        if name in table.column_names:
            numbers = pc.cast(table[name], pa.int64())
            usable.append(pc.and_(pc.greater(numbers, -most), pc.less(numbers, most)))
    ranks = pc.cast(table["rank"], pa.int64())
    usable.append(pc.and_(pc.greater_equal(ranks, 0), pc.less(ranks, limits().max_ranks)))
    return table.filter(reduce(pc.and_, usable))


def _ns(seconds: pa.ChunkedArray) -> Ints:
    return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)


def _track(optype: str) -> str:
    if optype.endswith(("-send", "-recv")):
        return optype
    return "dp communication" if optype in _DP_OPS else "compute"


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_YAML_BYTES + 1)


def _trial(name: str) -> str:
    """What names of one trial share: trace-ST.parquet and meta-ST.yaml share ST."""
    stem = Path(name).stem
    return stem.partition("-")[2] or stem


def _sizes_in(text: bytes) -> dict[str, int] | None:
    """Sizes of a yaml; None for anything else."""
    if len(text) > _MAX_YAML_BYTES or b"dp_size" not in text or b"pp_size" not in text:
        return None
    if text.count(b"[") + text.count(b"{") > _MOST_BRACKETS:
        return None
    import yaml  # here: every reading process would pay for it

    try:
        return _checked(yaml.safe_load(text))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        return None


def _sizes_in_metadata(metadata: Mapping[bytes, bytes]) -> dict[str, int] | None:
    """Sizes among the keys of the Parquet metadata, or in one value that is yaml or JSON."""
    own = _checked({key.decode("utf-8", "replace"): text for key, text in metadata.items()})
    return own or next(_found_in(metadata.values()), None)


def _found_in(texts: Any) -> Iterator[dict[str, int]]:
    for text in texts:
        if (sizes := _sizes_in(text)) is not None:
            yield sizes


def _checked(data: object) -> dict[str, int] | None:
    if not isinstance(data, dict):
        return None
    sizes = {name: int(data[name]) for name in _SIZES if str(_text(data.get(name))).isdecimal()}
    return sizes if {"dp_size", "pp_size", "tp_size"} <= set(sizes) else None


def _text(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
