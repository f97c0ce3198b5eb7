"""Spans, step windows and collective instances of a few lanes as numpy columns.

A lane is one rank of the picture, numbered from 0 in drawing order. All times are int64 ns on the
aligned clock, relative to the run's t0. Shape suffixes: S spans, C step windows, W instances.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.intervals import Bools, Ints
from trace_hooks.schema import KINDS, UNKNOWN

_Columns = TypeVar("_Columns", "SpanTable", "StepWindows", "Instances")

NO_STEP = -2
"""Number of the window of a lane of which no step is known."""
_NONE = np.iinfo(np.int64).min


def lane_of(rank: Ints, ranks: tuple[int, ...]) -> Ints:
    """Lane number of each rank, -1 where it has none."""
    order = np.argsort(np.asarray(ranks, dtype=np.int64), kind="stable")
    sorted_ranks = np.asarray(ranks, dtype=np.int64)[order]
    place = np.minimum(np.searchsorted(sorted_ranks, rank), max(len(ranks) - 1, 0))
    return np.where(sorted_ranks[place] == rank, order[place], -1)


def ints(rows: pa.Table, name: str, missing: int = UNKNOWN) -> Ints:
    """An integer column; NULL becomes `missing`."""
    column = rows.column(name)
    if column.null_count:
        column = column.fill_null(missing)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def dictionary(rows: pa.Table, name: str) -> tuple[Ints, list[Any]]:
    """A column as (index of each row, distinct values)."""
    encoded = rows.column(name).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary.to_pylist()


def take(columns: _Columns, chosen: npt.NDArray[Any]) -> _Columns:
    """The rows of a column dataclass that an index or mask chooses."""
    return type(columns)(*(_taken(getattr(columns, f.name), chosen) for f in fields(columns)))


def _taken(value: Any, chosen: npt.NDArray[Any]) -> Any:
    return value[chosen] if isinstance(value, np.ndarray) else value


@dataclass(frozen=True)
class SpanTable:
    """Spans; kind is an index into KINDS, name into `names`, group into `groups` (-1 none); open:
    nobody saw it end, so its end is that of the record.
    """

    lane_S: Ints
    begin_S: Ints
    end_S: Ints
    cpu_S: Ints
    kind_S: Ints
    name_S: Ints
    track_S: Ints
    step_S: Ints
    microbatch_S: Ints
    chunk_S: Ints
    recompute_S: Bools
    group_S: Ints
    seq_S: Ints
    peer_S: Ints
    bytes_S: Ints
    open_S: Bools
    names: list[str]
    groups: list[int]

    @classmethod
    def from_arrow(cls, rows: pa.Table, ranks: tuple[int, ...], t0_ns: int) -> SpanTable:
        """Rows of sql/window_spans.sql; a span of no length lasts 1 ns, so that it is not lost."""
        kind_S, kinds = dictionary(rows, "kind")
        number_of = np.array([KINDS.index(kind) for kind in kinds] or [0])
        name_S, names = dictionary(rows, "name")
        group_S, groups = dictionary(rows, "group_id")
        is_none = np.array([group == 0 for group in groups] or [True])
        group_S = np.where(is_none[group_S], -1, group_S)
        begin_S = ints(rows, "begin_ns") - t0_ns
        return cls(
            lane_of(ints(rows, "rank"), ranks),
            begin_S,
            begin_S + np.maximum(ints(rows, "dur_ns"), 1),
            ints(rows, "cpu_ns"),
            number_of[kind_S],
            name_S,
            dictionary(rows, "track")[0],
            ints(rows, "step"),
            ints(rows, "microbatch"),
            ints(rows, "chunk"),
            ints(rows, "recompute", 0).astype(bool),
            group_S,
            ints(rows, "coll_seq"),
            ints(rows, "peer"),
            ints(rows, "num_bytes"),
            np.zeros(begin_S.size, dtype=np.bool_),
            names,
            groups,
        )

    @classmethod
    def from_collectives(
        cls, rows: pa.Table, ranks: tuple[int, ...], t0_ns: int, until_ns: int
    ) -> SpanTable:
        """Rows of sql/window_collectives.sql, each group a track; what has not ended lasts to
        `until_ns` (since t0).
        """
        begin_S, end_S = ints(rows, "begin_ns") - t0_ns, ints(rows, "end_ns", _NONE)
        open_S = end_S == _NONE
        end_S = np.maximum(np.where(open_S, until_ns, end_S - t0_ns), begin_S + 1)
        kind_S, kinds = dictionary(rows, "kind")
        name_S, names = dictionary(rows, "name")
        group_S, groups = dictionary(rows, "group_id")
        unknown_S = np.full(begin_S.size, UNKNOWN, dtype=np.int64)
        return cls(
            lane_of(ints(rows, "rank"), ranks),
            begin_S,
            end_S,
            unknown_S,
            np.array([KINDS.index(kind) for kind in kinds] or [0])[kind_S],
            name_S,
            group_S,
            ints(rows, "step"),
            unknown_S,
            unknown_S,
            np.zeros(begin_S.size, dtype=np.bool_),
            group_S,
            ints(rows, "seq"),
            ints(rows, "peer"),
            ints(rows, "num_bytes"),
            open_S,
            names,
            groups,
        )

    @classmethod
    def none(cls) -> SpanTable:
        """No span at all."""
        empty, no = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        return cls(*[empty] * 10, no, *[empty] * 4, no, [], [])

    def joined(self, other: SpanTable) -> SpanTable:
        """The spans of both, which have no lane in common."""
        moved = replace(
            other,
            name_S=other.name_S + len(self.names),
            group_S=np.where(other.group_S < 0, -1, other.group_S + len(self.groups)),
        )
        columns = (getattr(self, f.name) for f in fields(self)[:-2])
        others = (getattr(moved, f.name) for f in fields(self)[:-2])
        return SpanTable(
            *(np.concatenate(pair) for pair in zip(columns, others, strict=True)),
            [*self.names, *other.names],
            [*self.groups, *other.groups],
        )

    def __len__(self) -> int:
        return self.lane_S.size


@dataclass(frozen=True)
class StepWindows:
    """End of the previous step to end of this one, per lane and step."""

    lane_C: Ints
    step_C: Ints
    begin_C: Ints
    end_C: Ints
    finished_C: Bools
    num_spans_C: Ints
    summed_C: Bools  # its spans were summed up where they were recorded

    @classmethod
    def from_arrow(cls, rows: pa.Table, ranks: tuple[int, ...], t0_ns: int) -> StepWindows:
        """Rows of sql/step_windows.sql."""
        return cls(
            lane_of(ints(rows, "rank"), ranks),
            ints(rows, "step"),
            ints(rows, "begin_ns") - t0_ns,
            ints(rows, "end_ns") - t0_ns,
            ints(rows, "finished", 0).astype(bool),
            ints(rows, "num_spans", 0),
            ints(rows, "is_summed", 0).astype(bool),
        )

    @classmethod
    def of_records(
        cls, counts: list[tuple[int, int]], record: tuple[int, int], seen: tuple[int, int]
    ) -> StepWindows:
        """One window per lane of `counts` (lane, collectives): all of its record (begin, end). Its
        number of spans is about that of the collectives in the part that is seen.
        """
        lane_C = np.array([lane for lane, _ in counts], dtype=np.int64)
        begin_ns, end_ns = record
        seen_ns = min(seen[1], end_ns) - max(seen[0], begin_ns)
        share = min(max(seen_ns / max(end_ns - begin_ns, 1), 0), 1)
        return cls(
            lane_C,
            np.full(lane_C.size, NO_STEP),
            np.full(lane_C.size, begin_ns),
            np.full(lane_C.size, end_ns),
            np.zeros(lane_C.size, dtype=np.bool_),
            np.array([int(count * share) for _, count in counts], dtype=np.int64),
            np.zeros(lane_C.size, dtype=np.bool_),
        )

    def only(self, keep_C: Bools) -> StepWindows:
        """Some of the windows."""
        return StepWindows(*(getattr(self, f.name)[keep_C] for f in fields(self)))

    def clipped(self, begin_ns: int, end_ns: int) -> StepWindows:
        """The windows as far as they lie between two times."""
        return replace(
            self,
            begin_C=np.clip(self.begin_C, begin_ns, end_ns),
            end_C=np.clip(self.end_C, begin_ns, end_ns),
        )

    def joined(self, other: StepWindows) -> StepWindows:
        """The windows of both."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return StepWindows(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True)
class Instances:
    """What each lane's part in a collective instance was.

    latest_W: when the last member was ready; first_end_W: when the first one saw the end; both -1
    below `known_W`, `moved_W` false. late_rank_W: who came last, -1 nobody alone or unknown.
    """

    lane_W: Ints
    begin_W: Ints
    end_W: Ints
    latest_W: Ints
    first_end_W: Ints
    known_W: Bools
    moved_W: Bools
    late_rank_W: Ints
    crossing_W: Bools
    group_W: Ints
    seq_W: Ints
    src_W: Ints
    dst_W: Ints
    step_W: Ints

    @classmethod
    def from_arrow(
        cls, rows: pa.Table, ranks: tuple[int, ...], t0_ns: int, until_ns: int
    ) -> Instances:
        """Rows of sql/window_waits.sql; what has not ended lasts to `until_ns` (since t0)."""
        end_W, latest_W = ints(rows, "end_ns", _NONE), ints(rows, "latest_ns", _NONE)
        first_end_W = ints(rows, "first_end_ns", _NONE)
        begin_W = ints(rows, "begin_ns") - t0_ns
        known_W, moved_W = latest_W != _NONE, first_end_W != _NONE
        return cls(
            lane_of(ints(rows, "rank"), ranks),
            begin_W,
            np.where(end_W == _NONE, np.maximum(until_ns, begin_W), end_W - t0_ns),
            np.where(known_W, latest_W - t0_ns, -1),
            np.where(moved_W, first_end_W - t0_ns, -1),
            known_W,
            moved_W,
            ints(rows, "last_rank"),
            ints(rows, "is_crossing", 0).astype(bool),
            ints(rows, "group_id"),
            ints(rows, "seq"),
            ints(rows, "src"),
            ints(rows, "dst"),
            ints(rows, "step"),
        )

    @classmethod
    def none(cls) -> Instances:
        """No instance at all."""
        empty, no = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        return cls(*[empty] * 5, no, no, empty, no, *[empty] * 5)
