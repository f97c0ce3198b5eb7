"""Spans of a recorded job as arrays, and the rows of operations made of them.

Shape suffixes: N row of the spans, G (step, dp rank, stage), in this order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from diagnosis.whatif.operations import Bools, Ints, NotAnswerable, Sizes

_NS = 1e9
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Spans:
    """Columns of the question `whatif_spans`; kind, name and track by `is_kind`, texts as codes."""

    sizes: Sizes
    step_S: Ints
    group_N: Ints
    rank_N: Ints
    begin_N: Ints
    end_N: Ints
    track_N: Ints
    microbatch_N: Ints
    chunk_N: Ints
    peer_N: Ints
    tag_N: Ints
    seq_N: Ints
    waited_N: Ints
    _texts: dict[str, tuple[Ints, list[str]]]

    @classmethod
    def of(cls, spans: pa.Table, sizes: Sizes) -> Spans:
        """Arrays of the answer; raises NotAnswerable for what no analysis can use."""
        if spans.num_rows == 0:
            raise NotAnswerable("no finished step has compute, so there is nothing to replay")
        if spans["dp"].null_count or spans["stage"].null_count:
            raise NotAnswerable(
                "the layout of the job is unknown, so nobody knows which ranks are stages of one "
                "pipeline and which are replicas"
            )
        if not _ints(spans, "is_aligned").all():
            raise NotAnswerable(
                "the clocks of the ranks are not aligned, so waiting cannot be told from "
                "transferring"
            )
        step_S, step_N = np.unique(_ints(spans, "step"), return_inverse=True)
        stage_N, dp_N = _ints(spans, "stage"), _ints(spans, "dp")
        _check_within(stage_N, dp_N, sizes)
        begin_N = _ints(spans, "begin_ns")
        texts = {name: _coded(spans[name]) for name in ("kind", "name", "track")}
        names = ("microbatch", "chunk", "peer", "tag", "seq", "waited_ns")
        microbatch, chunk, peer, tag, seq, waited = (_ints(spans, name) for name in names)
        return cls(
            sizes, step_S, (step_N * sizes.dp + dp_N) * sizes.pp + stage_N, _ints(spans, "rank"),
            begin_N, begin_N + _ints(spans, "dur_ns"), texts["track"][0], microbatch, chunk, peer,
            tag, seq, waited, texts,
        )  # fmt: skip

    @property
    def num_groups(self) -> int:
        """Number of (step, dp rank, stage), with or without spans."""
        return len(self.step_S) * self.sizes.dp * self.sizes.pp

    def stage(self, group: Ints) -> Ints:
        """Stages of groups."""
        return group % self.sizes.pp

    def replica(self, group: Ints) -> Ints:
        """(step, dp rank) of groups, as one number."""
        return group // self.sizes.pp

    def rows_of_kind(self, *kinds: str) -> Ints:
        """Indices of the rows of these kinds."""
        return np.flatnonzero(self._is("kind", kinds))

    def is_named(self, *names: str) -> Bools:
        """Rows of these names."""
        return self._is("name", names)

    def _is(self, column: str, wanted: tuple[str, ...]) -> Bools:
        codes_N, texts = self._texts[column]
        found: Bools = np.array([text in wanted for text in texts], np.bool_)[codes_N]
        return found

    def outermost(self, rows: Ints) -> Ints:
        """Those of `rows` that lie in no other of them on their track."""
        keys = (-self.end_N[rows], self.begin_N[rows], self.track_N[rows], self.rank_N[rows])
        order = rows[np.lexsort(keys)]
        lane = self.rank_N[order] * (self.track_N.max(initial=0) + 1) + self.track_N[order]
        _, first, lane = np.unique(lane, return_index=True, return_inverse=True)
        begins, ends = ordinals(self.begin_N[order], self.end_N[order])
        # ends grow from lane to lane by more than all times, so one running maximum does
        offset = lane * (2 * len(order))
        reached = np.maximum.accumulate(ends + offset)
        inside = np.zeros(len(order), np.bool_)
        inside[1:] = (begins + offset)[1:] < reached[:-1]
        inside[first] = False
        return order[~inside]

    def first_of(self, group: Ints, time: Ints) -> Ints:
        """Least time per group; the greatest number where it has none."""
        found = np.full(self.num_groups, _NEVER)
        np.minimum.at(found, group, time)
        return found

    def last_of(self, group: Ints, time: Ints) -> Ints:
        """Greatest time per group; the least number where it has none."""
        found = np.full(self.num_groups, -_NEVER)
        np.maximum.at(found, group, time)
        return found


@dataclass
class Rows:
    """Collects operations as arrays of equal length."""

    _parts: list[tuple[str, Ints, Ints, Ints, Ints, Ints, Ints]] = field(default_factory=list)

    def add(
        self, optype: str, group: Ints, seq: Ints, chunk: Ints | int, begin: Ints, end: Ints,
        inside: Ints | int = 0,
    ) -> None:  # fmt: skip
        """Ops of one type; `chunk` inside the stage, -1 none; times in ns, `inside`: of collectives
        over replicas within them.
        """
        chunk_A = np.broadcast_to(np.asarray(chunk, np.int64), group.shape)
        inside_A = np.broadcast_to(np.asarray(inside, np.int64), group.shape)
        self._parts.append((optype, group, seq, chunk_A, begin, np.maximum(begin, end), inside_A))

    def to_table(self, spans: Spans) -> pa.Table:
        """The table that `operations.dense` reads; times since the first op of each step."""
        group, seq, chunk, begin, end, inside = (
            np.concatenate([part[i] for part in self._parts]) for i in range(1, 7)
        )
        step = group // (spans.sizes.dp * spans.sizes.pp)
        first_S = np.full(len(spans.step_S), _NEVER)
        np.minimum.at(first_S, step, begin)
        rank_G = np.full(spans.num_groups, -1, np.int64)
        rank_G[spans.group_N] = spans.rank_N
        lengths = [len(part[1]) for part in self._parts]
        codes = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        optypes = pa.array([part[0] for part in self._parts])
        return pa.table(
            {
                "step": spans.step_S[step],
                "dp": spans.replica(group) % spans.sizes.dp,
                "stage": spans.stage(group),
                "rank": rank_G[group],
                "optype": optypes.take(pa.array(codes)),
                "seq": seq,
                "chunk": chunk,
                "start_s": (begin - first_S[step]) / _NS,
                "duration_s": (end - begin) / _NS,
                "inside_s": inside / _NS,
            }
        )


def numbered(key: Ints) -> Ints:
    """0, 1, ... within each run of equal neighbours of a sorted key."""
    index = np.arange(len(key))
    starts = np.ones(len(key), np.bool_)
    starts[1:] = key[1:] != key[:-1]
    number: Ints = index - np.maximum.accumulate(np.where(starts, index, 0))
    return number


def ordinals(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Places of the times of both in their common order: small enough to multiply by a group."""
    places = np.unique(np.concatenate([one, other]), return_inverse=True)[1].astype(np.int64)
    return places[: len(one)], places[len(one) :]


def joined_key(*columns: Ints) -> Ints:
    """One number per row, equal where all columns are."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + code, return_inverse=True)[1].astype(np.int64)
    return found


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].to_numpy(), np.int64)


def _coded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    coded = column.combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    return np.asarray(coded.indices, np.int64), coded.dictionary.to_pylist()


def _check_within(stage_N: Ints, dp_N: Ints, sizes: Sizes) -> None:
    if min(stage_N.min(), dp_N.min()) < 0 or stage_N.max() >= sizes.pp or dp_N.max() >= sizes.dp:
        raise NotAnswerable(
            f"ranks lie on stages up to {stage_N.max()} and dp ranks up to {dp_N.max()}, but the "
            f"layout has {sizes.pp} stages and {sizes.dp} dp ranks"
        )
