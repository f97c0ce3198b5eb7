"""Operations of a StragglerAnalysis trace as rows: spans, steps and collectives of each rank."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.limits import limits
from ingest.readers.base import Sink
from ingest.readers.tables.nesting import depths
from ingest.readers.tables.rows import Coded, rank_info, rows
from trace_hooks.layout import ParallelLayout
from trace_hooks.schema import UNKNOWN

_SOURCE = "straggler_analysis"
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
_LONGEST_S = 2e9
_MOST = {"step": 2**53, "dp_rank": 2**17, "stage": 2**15, "gmc": 2**15, "mc": 2**15, "mb_id": 2**31}
"""Numbers from here on are damage."""

Ints = npt.NDArray[np.int64]


class Operations:
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
        """Operations over all data-parallel ranks of a stage, numbered the same on every member."""
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
            "source": _SOURCE,
        }
        sink.add_rows("collectives", rank, rows("collectives", len(N), columns))
        group = {"rank": rank, "group_id": group_id, "axis": "dp", "ranks": [list(members)]}
        sink.add_rows("groups", rank, rows("groups", 1, group))


def with_times(table: pa.Table) -> pa.Table:
    """The operations whose start and duration are numbers that nanoseconds can hold."""
    import pyarrow.compute as pc  # here: every reading process would pay for it

    usable = [
        pc.less(pc.abs(pc.cast(table[name], pa.float64())), _LONGEST_S)
        for name in ("start_ts", "duration")
    ]
    return table.filter(pc.and_(*usable))


def with_indices(table: pa.Table) -> pa.Table:
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
