"""Spans of a recorded job as arrays, and the rows of operations made of them.

The ranks of a cell are its *members*; the ranks of one dp rank with the same number in their cells
are a *lane*, one pipeline. Rows are made lane by lane, `recorded_cells` joins them.

Shape suffixes: N row of the spans, G (step, dp rank, member, stage), in this order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from diagnosis.whatif.operations import Bools, Ints, NotAnswerable, Sizes

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Spans:
    """Columns of the question `whatif_spans`; kind, name and track by `is_kind`, texts as codes."""

    sizes: Sizes
    num_members: int  # of the greatest cell
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
    def of(cls, spans: pa.Table, sizes: Sizes, is_whole: bool = False) -> Spans:
        """Arrays of the answer; raises NotAnswerable for what no analysis can use.

        `is_whole`: no rank of the job is missing.
        """
        if spans.num_rows == 0:
            raise NotAnswerable("no finished step has compute, so there is nothing to replay")
        if spans["dp"].null_count or spans["stage"].null_count:
            raise NotAnswerable(
                "the layout of the job is unknown, so rankscope cannot tell which ranks are "
                "stages of one pipeline and which are replicas. For an import, set the layout "
                "with “rankscope layout”; to record a job, start it with TRACE_HOOKS_LAYOUT"
            )
        if not _ints(spans, "is_aligned").all():
            remedy = "" if is_whole else "; import the files of all ranks together"
            raise NotAnswerable(
                "the clocks of the ranks are not aligned, so waiting cannot be distinguished from "
                f"transferring{remedy}"
            )
        step_S, step_N = np.unique(_ints(spans, "step"), return_inverse=True)
        stage_N, dp_N = _ints(spans, "stage"), _ints(spans, "dp")
        _check_within(stage_N, dp_N, sizes)
        begin_N, member_N = _ints(spans, "begin_ns"), _ints(spans, "member")
        num_members = int(member_N.max()) + 1
        lane_N = (step_N * sizes.dp + dp_N) * num_members + member_N
        texts = {name: _coded(spans[name]) for name in ("kind", "name", "track")}
        names = ("microbatch", "chunk", "peer", "tag", "seq", "waited_ns")
        microbatch, chunk, peer, tag, seq, waited = (_ints(spans, name) for name in names)
        return cls(
            sizes,
            num_members,
            step_S,
            lane_N * sizes.pp + stage_N,
            _ints(spans, "rank"),
            begin_N,
            begin_N + _ints(spans, "dur_ns"),
            texts["track"][0],
            microbatch,
            chunk,
            peer,
            tag,
            seq,
            waited,
            texts,
        )

    @property
    def num_lanes(self) -> int:
        """Number of (step, dp rank, member), with or without spans."""
        return len(self.step_S) * self.sizes.dp * self.num_members

    @property
    def num_groups(self) -> int:
        """Number of (step, dp rank, member, stage), with or without spans."""
        return self.num_lanes * self.sizes.pp

    def stage(self, group: Ints) -> Ints:
        """Stages of groups."""
        return group % self.sizes.pp

    def lane(self, group: Ints) -> Ints:
        """(step, dp rank, member) of groups, as one number."""
        return group // self.sizes.pp

    def member(self, group: Ints) -> Ints:
        """Numbers of groups' ranks within their cells."""
        return self.lane(group) % self.num_members

    def cell(self, group: Ints) -> Ints:
        """(step, dp rank, stage) of groups, as one number."""
        return self.lane(group) // self.num_members * self.sizes.pp + self.stage(group)

    def step(self, group: Ints) -> Ints:
        """Places of groups' steps in step_S."""
        return self.lane(group) // (self.sizes.dp * self.num_members)

    def rows_of_kind(self, *kinds: str) -> Ints:
        """Indices of the rows of these kinds."""
        return np.flatnonzero(self._is("kind", kinds))

    def is_named(self, *names: str) -> Bools:
        """Rows of these names."""
        return self._is("name", names)

    def _is(self, column: str, wanted: tuple[str, ...]) -> Bools:
        codes_N, texts = self._texts[column]
        is_wanted_N: Bools = np.array([text in wanted for text in texts], np.bool_)[codes_N]
        return is_wanted_N

    def outermost(self, rows: Ints) -> Ints:
        """Those of `rows` that lie in no other of them on their track."""
        num_tracks = int(self.track_N.max(initial=0)) + 1
        lane = self.rank_N[rows] * num_tracks + self.track_N[rows]
        begins, ends, size = places(lane, self.begin_N[rows], self.end_N[rows])
        order = np.lexsort((-ends, begins + lane * size))
        begins, ends = (begins + lane * size)[order], (ends + lane * size)[order]
        # ends grow from lane to lane by more than all times, so one running maximum does
        inside = np.zeros(len(order), np.bool_)
        inside[1:] = begins[1:] < np.maximum.accumulate(ends)[:-1]
        return rows[order[~inside]]

    def first_of(self, group: Ints, time: Ints) -> Ints:
        """Least time per group; the greatest number where it has none."""
        first_G = np.full(self.num_groups, _NEVER)
        np.minimum.at(first_G, group, time)
        return first_G

    def last_of(self, group: Ints, time: Ints) -> Ints:
        """Greatest time per group; the least number where it has none."""
        last_G = np.full(self.num_groups, -_NEVER)
        np.maximum.at(last_G, group, time)
        return last_G


@dataclass
class Rows:
    """Collects operations of groups as arrays of equal length, times in ns.

    `columns`: optype (place in `optypes`), group, seq, chunk, begin, end, inside, own; see `add`.
    """

    optypes: list[str] = field(default_factory=list)
    _parts: list[list[Ints]] = field(default_factory=list)

    def add(
        self,
        optype: str,
        group: Ints,
        seq: Ints,
        chunk: Ints | int,
        begin: Ints,
        end: Ints,
        inside: Ints | int = 0,
        own: Ints | None = None,
    ) -> None:
        """Ops of one type; `chunk` inside the stage, -1 none; `inside`: of collectives over
        replicas within them; `own`: how long the rank itself needs, without waiting for the other
        members of its cell (default: all of it). Only differences of `own` between members count.
        """
        if optype not in self.optypes:
            self.optypes.append(optype)
        end = np.maximum(begin, end)
        code = self.optypes.index(optype)
        columns = (code, group, seq, chunk, begin, end, inside, end - begin if own is None else own)
        self._parts.append([np.broadcast_to(np.asarray(c, np.int64), group.shape) for c in columns])

    @property
    def columns(self) -> list[Ints]:
        """One array per column, all ops one after the other."""
        return [np.concatenate(column) for column in zip(*self._parts, strict=True)]


def numbered(key: Ints) -> Ints:
    """0, 1, ... within each run of equal neighbours of a sorted key."""
    index = np.arange(len(key))
    starts = np.ones(len(key), np.bool_)
    starts[1:] = key[1:] != key[:-1]
    number: Ints = index - np.maximum.accumulate(np.where(starts, index, 0))
    return number


def places(group: Ints, ints: Ints, other: Ints) -> tuple[Ints, Ints, int]:
    """The times of both from 0 on, and a number greater than all of them: `group` times it plus a
    time is in order of groups, then of times. Where that is too much for 64 bits, their places in
    the common order stand for the times.
    """
    low = min(ints.min(initial=_NEVER), other.min(initial=_NEVER))
    high = max(ints.max(initial=low), other.max(initial=low))
    size = int(high) - int(low) + 1
    if (int(group.max(initial=0)) + 1) * size < _NEVER:
        return ints - low, other - low, size
    numbers = np.unique(np.concatenate([ints, other]), return_inverse=True)[1].astype(np.int64)
    return numbers[: len(ints)], numbers[len(ints) :], len(numbers)


def joined_key(*columns: Ints) -> Ints:
    """One number per row, equal where all columns are; in the order of the first, then the next."""
    key, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low = int(column.min(initial=0))
        width = int(column.max(initial=0)) - low + 1
        if size * width >= _NEVER:
            values, column = np.unique(column, return_inverse=True)
            low, width = 0, len(values)
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            size = len(key)
        key, size = key * width + (column - low), size * width
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def latest(key: Ints, time: Ints) -> Ints:
    """Per element the greatest time of all with its key."""
    _, code = np.unique(key, return_inverse=True)
    greatest = np.full(int(code.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(greatest, code, time)
    latest_of_key: Ints = greatest[code]
    return latest_of_key


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
