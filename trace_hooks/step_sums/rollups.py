"""What a step's time went to, per (attempt, rank, step) and kind: spans in, two tables out.

The rules (specs: metrics; user's words: docs/data-model.md):

1. A step's window is the end of the previous step to the end of this one. Spans are divided at
   the windows' borders.
2. On one track an instant belongs to the innermost span. Hooks record blocking communication
   inside forward and backward on the same thread: that time is communication, not compute.
3. Across the tracks of a rank times are united: an instant with communication on one track and
   compute on another is both, and not exposed.
4. Where a step has `kernel` spans, they are its compute and host-side forward/backward/... is not.
5. Blocked on data is `data_wait`, and `data_fetch` that nothing of the rank hides: a loader without
   workers fetches on the training thread itself. Next to compute or communication on another track
   a fetch is hidden.
6. An evaluation is no part of a step (evaluations.py): the window's length is without it, and only
   the row of its kind has its time.

Shape suffixes: S spans, C cells (one (rank, step) each), P pieces of spans, E pieces of time,
K kinds, T transfers, U distinct (rank, step) pairs of spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trace_hooks.schema import COMM_KINDS, COMPUTE_KINDS, KINDS, MODES
from trace_hooks.step_sums.evaluations import outside_evaluations
from trace_hooks.step_sums.intervals import (
    Bools,
    Ints,
    dense_numbers,
    divide,
    owned_segments,
    parents,
)
from trace_hooks.step_sums.states import StateTimes

_MODE_BIT = len(KINDS)
_RECOMPUTE_BIT = _MODE_BIT + len(MODES)
_TRANSFER_BIT = _RECOMPUTE_BIT + 1
_LATE_BIT = _TRANSFER_BIT + 1


def _bits(*kinds: str) -> int:
    return sum(1 << KINDS.index(kind) for kind in kinds)


COMPUTE = _bits(*COMPUTE_KINDS)
KERNEL = _bits("kernel")
COMM = _bits(*COMM_KINDS)
OTHER = _bits("gc", "host", "checkpoint", "memcpy")
CHECKPOINT, EVALUATION = _bits("checkpoint"), _bits("evaluation")
_LOADING = [KINDS.index(kind) for kind in ("data_fetch", "data_wait", "gc")]
ANY_KIND = (1 << len(KINDS)) - 1
LATE = 1 << _LATE_BIT
NONE: Ints = np.empty(0, dtype=np.int64)
TRANSFER = 1 << _TRANSFER_BIT


@dataclass(frozen=True)
class Windows:
    """Cells to fill, sorted by (rank, begin) and disjoint within a rank unless relative."""

    rank_C: Ints
    step_C: Ints
    begin_C: Ints
    end_C: Ints
    finished_C: Bools


@dataclass(frozen=True)
class Spans:
    """Columns of `spans` as arrays; kind and mode are indices into KINDS and MODES."""

    rank_S: Ints
    step_S: Ints
    ts_S: Ints
    dur_S: Ints
    cpu_S: Ints
    kind_S: Ints
    mode_S: Ints
    track_S: Ints
    recompute_S: Bools

    @classmethod
    def from_arrow(cls, rows: pa.Table) -> Spans:
        """Spans as sql/index/load_spans.sql gives them."""
        track = rows.column("track").combine_chunks().dictionary_encode()
        if isinstance(track, pa.ChunkedArray):
            track = track.combine_chunks()
        recompute = rows.column("recompute").fill_null(False).to_numpy().astype(np.bool_)
        numbers = {
            shaped: _ints(rows.column(name))
            for shaped, name in (
                ("rank_S", "rank"),
                ("step_S", "step"),
                ("ts_S", "ts_ns"),
                ("dur_S", "dur_ns"),
                ("cpu_S", "cpu_ns"),
                ("kind_S", "kind"),
                ("mode_S", "mode"),
            )
        }
        return cls(**numbers, track_S=_ints(track.indices), recompute_S=recompute)

    def only(self, keep_S: Bools) -> Spans:
        """Some of the spans."""
        return Spans(*(getattr(self, column.name)[keep_S] for column in fields(self)))

    @classmethod
    def none(cls) -> Spans:
        """No span at all."""
        return cls(NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE.astype(np.bool_))


@dataclass(frozen=True)
class Transfers:
    """When the collectives of each rank moved data, and when it waited for a late last arriver.

    All on the rank's own clock. `late_T`: the interval is such a wait, else it is transfer.
    """

    rank_T: Ints
    step_T: Ints
    begin_T: Ints
    end_T: Ints
    late_T: Bools

    @classmethod
    def none(cls) -> Transfers:
        """No transfer at all."""
        return cls(NONE, NONE, NONE, NONE, NONE.astype(np.bool_))


def _ints(column: pa.ChunkedArray | pa.Array) -> Ints:
    return np.asarray(
        column.to_numpy(zero_copy_only=False)
        if isinstance(column, pa.Array)
        else column.to_numpy(),
        dtype=np.int64,
    )


def complete_windows(known: Windows, spans: Spans, step_min: int, step_max: int) -> Windows:
    """Add a window for every (rank, step) that has spans and no row in `steps` (yet).

    It lasts from the previous window's end (or its first span) to its last span's end, and never
    reaches into the next window. A batch alone is no step: many loops fetch one more in the end.
    """
    is_asked_S = (spans.step_S >= step_min) & (spans.step_S <= step_max)
    is_asked_S &= cells(known, spans.rank_S, spans.step_S) < 0
    rank_S, step_S = spans.rank_S[is_asked_S], spans.step_S[is_asked_S]
    begin_S = spans.ts_S[is_asked_S]
    end_S = begin_S + spans.dur_S[is_asked_S]
    if not rank_S.size:
        return known
    width = step_max - step_min + 1
    keys, cell_S = np.unique(_pair_keys(rank_S, step_S, step_min, width), return_inverse=True)
    rank_U, step_U = keys // width, keys % width + step_min
    begin_U = np.full(keys.size, np.iinfo(np.int64).max)
    end_U = np.full(keys.size, np.iinfo(np.int64).min)
    np.minimum.at(begin_U, cell_S, begin_S)
    np.maximum.at(end_U, cell_S, end_S)
    is_more_S = ~np.isin(spans.kind_S[is_asked_S], _LOADING)
    has_more_U = np.bincount(cell_S, is_more_S, keys.size) > 0
    fresh_U = has_more_U | (step_U < 0)
    merged = Windows(
        np.concatenate((known.rank_C, rank_U[fresh_U])),
        np.concatenate((known.step_C, step_U[fresh_U])),
        np.concatenate((known.begin_C, begin_U[fresh_U])),
        np.concatenate((known.end_C, end_U[fresh_U])),
        np.concatenate((known.finished_C, np.zeros(int(fresh_U.sum()), dtype=bool))),
    )
    return _fit_between(merged)


def _fit_between(windows: Windows) -> Windows:
    """Sort by (rank, step); open windows start at their neighbour's end and end at the next."""
    order_C = np.lexsort((windows.step_C, windows.rank_C))
    rank_C, step_C = windows.rank_C[order_C], windows.step_C[order_C]
    begin_C, end_C = windows.begin_C[order_C], windows.end_C[order_C]
    finished_C = windows.finished_C[order_C]
    same_C = rank_C[1:] == rank_C[:-1]
    open_after = ~finished_C[1:] & same_C
    follows = open_after & (step_C[1:] == step_C[:-1] + 1) & finished_C[:-1]
    begin_C[1:][follows] = end_C[:-1][follows]
    begin_C[1:][open_after] = np.maximum(begin_C[1:], end_C[:-1])[open_after]
    open_before = ~finished_C[:-1] & same_C
    end_C[:-1][open_before] = np.minimum(end_C[:-1], begin_C[1:])[open_before]
    return Windows(rank_C, step_C, begin_C, np.maximum(begin_C, end_C), finished_C)


@dataclass(frozen=True)
class _Pieces:
    """Spans cut at windows: which span, which cell, from when to when."""

    span_P: Ints
    cell_P: Ints
    begin_P: Ints
    end_P: Ints


def _pair_keys(rank: Ints, step: Ints, low: int, width: int) -> Ints:
    """One number per (rank, step) with low <= step < low + width, ordered like the pairs."""
    return rank * width + (step - low)


def cells(windows: Windows, rank: Ints, step: Ints) -> Ints:
    """Index of each (rank, step) among the windows, -1 where it has none.

    Neighbours of one step of one rank, as files have them, are looked up once.
    """
    if not windows.rank_C.size or not rank.size:
        return np.full(rank.size, -1, dtype=np.int64)
    low = int(windows.step_C.min())
    width = int(windows.step_C.max()) - low + 1
    key_C = _pair_keys(windows.rank_C, windows.step_C, low, width)
    order_C = np.argsort(key_C)
    is_next = (rank[1:] != rank[:-1]) | (step[1:] != step[:-1])
    first = np.flatnonzero(np.append(True, is_next))
    counts = np.diff(first, append=rank.size)
    rank, step = rank[first], step[first]
    inside = (step >= low) & (step < low + width)
    key = _pair_keys(rank, np.clip(step, low, low + width - 1), low, width)
    position = np.minimum(np.searchsorted(key_C[order_C], key), key_C.size - 1)
    cell = order_C[position]
    return np.repeat(np.where(inside & (key_C[cell] == key), cell, -1).astype(np.int64), counts)


def _cut(
    rank: Ints, step: Ints, begin: Ints, end: Ints, windows: Windows, relative: bool
) -> _Pieces:
    """Cut intervals at the windows; with relative times a window takes its own step's only."""
    if not relative:
        return _cut_by_time(rank, step, begin, end, windows)
    cell = cells(windows, rank, step)
    span = np.flatnonzero(cell >= 0)
    cell = cell[span]
    begin = np.maximum(begin[span], windows.begin_C[cell])
    end = np.minimum(end[span], windows.end_C[cell])
    keep = end > begin
    return _Pieces(span[keep], cell[keep], begin[keep], end[keep])


def _cut_by_time(rank: Ints, step: Ints, begin: Ints, end: Ints, windows: Windows) -> _Pieces:
    """The same where every window takes what lies in it: mostly all of its own step's spans."""
    cell = cells(windows, rank, step)
    if not windows.rank_C.size:
        return _Pieces(NONE, NONE, NONE, NONE)
    is_whole = (cell >= 0) & (begin >= windows.begin_C[cell]) & (end <= windows.end_C[cell])
    whole, rest = np.flatnonzero(is_whole), np.flatnonzero(~is_whole)
    dense = dense_numbers(np.concatenate((rank[rest], windows.rank_C)))
    ranks = dense[: rest.size], dense[rest.size :]
    cut = divide(ranks[0], begin[rest], end[rest], ranks[1], windows.begin_C, windows.end_C)
    some = whole[end[whole] > begin[whole]]
    span = np.concatenate((some, rest[cut[0]]))
    order = np.argsort(span, kind="stable")
    columns = ((cell[some], cut[1]), (begin[some], cut[2]), (end[some], cut[3]))
    return _Pieces(span[order], *(np.concatenate(column)[order] for column in columns))


def _self_cpu(spans: Spans) -> npt.NDArray[np.float64]:
    """CPU ns of each span without the spans inside it on its track; nan unknown."""
    group_S = dense_numbers(spans.rank_S * (int(spans.track_S.max()) + 1) + spans.track_S)
    parent_S = parents(group_S, spans.ts_S, spans.ts_S + spans.dur_S)
    inside_S = (parent_S >= 0) & (spans.cpu_S >= 0)
    own_S = spans.cpu_S.astype(np.float64)  # sums of what damaged files claim exceed int64
    np.subtract.at(own_S, parent_S[inside_S], spans.cpu_S[inside_S])
    return np.where(spans.cpu_S >= 0, np.maximum(own_S, 0), np.nan)


@dataclass(frozen=True)
class Rollups:
    """Rows of step_rollup and kind_rollup, without the attempt."""

    steps: dict[str, npt.NDArray[Any]]
    kinds: dict[str, npt.NDArray[Any]]


def rollups(
    spans: Spans, windows: Windows, transfers: Transfers, relative: bool, aligned_C: Bools
) -> Rollups:
    """Rollup rows of the windows' cells. `aligned_C`: whether transfers of the cell are known.

    Where they are not, the bubble of a cell with communication is unknown (-1).
    """
    spans = _without_evaluated(spans, relative)
    end_S = spans.ts_S + spans.dur_S
    cut = _cut(spans.rank_S, spans.step_S, spans.ts_S, end_S, windows, relative)
    num_tracks = int(spans.track_S.max()) + 1 if spans.track_S.size else 1
    track_P = dense_numbers(cut.cell_P * num_tracks + spans.track_S[cut.span_P])
    owned = owned_segments(track_P, cut.begin_P, cut.end_P)
    bits_S = (np.int64(1) << spans.kind_S) | (np.int64(1) << (spans.mode_S + _MODE_BIT))
    bits_S |= spans.recompute_S.astype(np.int64) << _RECOMPUTE_BIT
    moved = _cut(
        transfers.rank_T, transfers.step_T, transfers.begin_T, transfers.end_T, windows, relative
    )
    bit_M = np.where(transfers.late_T[moved.span_P], np.int64(LATE), np.int64(TRANSFER))
    times = StateTimes(
        np.concatenate((cut.cell_P[owned.owner_E], moved.cell_P)),
        np.concatenate((owned.begin_E, moved.begin_P)),
        np.concatenate((owned.end_E, moved.end_P)),
        np.concatenate((bits_S[cut.span_P[owned.owner_E]], bit_M)),
        windows.rank_C.size,
    )
    time_ns, (cpu_CK, count_CK) = _times(times), _cpu_and_counts(spans, windows, cut)
    steps = _step_rows(windows, time_ns, cpu_CK, count_CK, aligned_C)
    return Rollups(steps, _kind_rows(windows, time_ns, cpu_CK, count_CK))


def _without_evaluated(spans: Spans, relative: bool) -> Spans:
    """The spans without those inside evaluations; with relative times a step's own spans only."""
    group_S = spans.rank_S
    if relative and spans.step_S.size:
        low = int(spans.step_S.min())
        group_S = _pair_keys(group_S, spans.step_S, low, int(spans.step_S.max()) - low + 1)
    end_S = spans.ts_S + spans.dur_S
    return spans.only(outside_evaluations(group_S, spans.ts_S, end_S, spans.kind_S))


def _times(times: StateTimes) -> dict[str, Ints]:
    """Ns per cell: step_rollup's columns, and `time` and `exposed` of each kind. Compute is kernels
    in cells that have any, else forward, backward, ...
    """
    by_host = times.sums(_selections(times, times.having(COMPUTE)))
    kernel_B = times.having(KERNEL)
    if not kernel_B.any():
        return by_host
    by_kernel = times.sums(_selections(times, kernel_B))
    has_kernels_C = by_kernel["time kernel"] > 0
    return {name: np.where(has_kernels_C, by_kernel[name], by_host[name]) for name in by_host}


def _selections(times: StateTimes, compute_B: Bools) -> dict[str, Bools]:
    """The states that each of the times sums up, where these ones are compute."""
    evaluation_B = times.having(EVALUATION) & ~times.having(CHECKPOINT)

    def having(bits: int) -> Bools:
        return times.having(bits) & ~evaluation_B

    compute_B = compute_B & ~evaluation_B
    comm_B, covered_B = having(COMM), having(ANY_KIND & ~EVALUATION)
    data_B = having(_bits("data_wait")) | (having(_bits("data_fetch")) & ~(compute_B | comm_B))
    bubble_B = covered_B & ~(compute_B | data_B | having(TRANSFER))
    parts = {
        "compute": compute_B,
        "recompute": compute_B & having(1 << _RECOMPUTE_BIT),
        "comm": comm_B,
        "exposed_comm": comm_B & ~compute_B,
        "data_wait": data_B,
        "data_fetch": having(_bits("data_fetch")),
        "other": having(OTHER) & ~compute_B & ~comm_B & ~data_B,
        "covered": covered_B,
        **{mode: having(1 << _MODE_BIT + number) for number, mode in enumerate(MODES)},
        "bubble": bubble_B,
        "bubble_late": bubble_B & comm_B & having(LATE),
        "bubble_other": bubble_B & ~comm_B,
    }
    for kind in KINDS:
        kind_B = evaluation_B if kind == "evaluation" else having(_bits(kind))
        parts[f"time {kind}"], parts[f"exposed {kind}"] = kind_B, kind_B & ~compute_B
    return parts


def _cpu_and_counts(
    spans: Spans, windows: Windows, cut: _Pieces
) -> tuple[npt.NDArray[np.float64], Ints]:
    """Own CPU ns (nan where a span of that kind has none) and number of spans per cell and kind.

    CPU time of a span that crosses a border is divided in proportion to its wall time; a span is
    counted in the cell it begins in.
    """
    shape = windows.rank_C.size, len(KINDS)
    if not spans.ts_S.size:
        return np.zeros(shape), np.zeros(shape, dtype=np.int64)
    own_S = _self_cpu(spans)
    span_P = cut.span_P
    share_P = (cut.end_P - cut.begin_P) / np.maximum(spans.dur_S[span_P], 1)
    flat_P = cut.cell_P * len(KINDS) + spans.kind_S[span_P]
    cpu_CK = np.bincount(flat_P, own_S[span_P] * share_P, shape[0] * shape[1]).reshape(shape)
    cell_S = cells(windows, spans.rank_S, spans.step_S)
    known_S = cell_S >= 0
    flat_S = cell_S[known_S] * len(KINDS) + spans.kind_S[known_S]
    count_CK = np.bincount(flat_S, minlength=shape[0] * shape[1]).reshape(shape)
    return cpu_CK.astype(np.float64), count_CK.astype(np.int64)


def _kind_rows(
    windows: Windows,
    time_ns: Mapping[str, Ints],
    cpu_CK: npt.NDArray[np.float64],
    count_CK: Ints,
) -> dict[str, npt.NDArray[Any] | pa.Array]:
    time_CK = np.column_stack([time_ns[f"time {kind}"] for kind in KINDS])
    exposed_CK = np.column_stack([time_ns[f"exposed {kind}"] for kind in KINDS])
    cell, kind = np.nonzero((time_CK > 0) | (count_CK > 0))
    return {
        "rank": windows.rank_C[cell],
        "step": windows.step_C[cell],
        "kind": _KIND_NAMES[kind],
        "time_ns": time_CK[cell, kind],
        "exposed_ns": exposed_CK[cell, kind],
        "self_cpu_ns": _or_unknown(cpu_CK[cell, kind]),
        "num_spans": count_CK[cell, kind],
    }


def _or_unknown(values: npt.NDArray[np.float64]) -> Ints:
    """Whole ns, -1 where unknown, and where damaged files claim more than int64 holds."""
    known = np.isfinite(values) & (np.abs(values) < 2.0**63)
    return np.where(known, values, -1).astype(np.int64)


def _step_rows(
    windows: Windows,
    time_ns: Mapping[str, Ints],
    cpu_CK: npt.NDArray[np.float64],
    count_CK: Ints,
    aligned_C: Bools,
) -> dict[str, npt.NDArray[Any]]:
    unknown_C = (time_ns["comm"] > 0) & ~aligned_C
    compute_kinds = [number for number, kind in enumerate(KINDS) if kind in COMPUTE_KINDS]
    return {
        "rank": windows.rank_C,
        "step": windows.step_C,
        "begin_ns": windows.begin_C,
        "end_ns": windows.end_C,
        "finished": windows.finished_C,
        "window_ns": windows.end_C - windows.begin_C - time_ns["time evaluation"],
        **{f"{name}_ns": time_ns[name] for name in (*_PARTS, *MODES)},
        **{f"{name}_ns": np.where(unknown_C, -1, time_ns[name]) for name in _BUBBLES},
        "compute_cpu_ns": _or_unknown(cpu_CK[:, compute_kinds].sum(axis=1)),
        "num_spans": count_CK.sum(axis=1),
    }


_PARTS = (
    *("compute", "recompute", "comm", "exposed_comm"),
    *("data_wait", "data_fetch", "other", "covered"),
)
_KIND_NAMES = np.array(KINDS, dtype=object)
_BUBBLES = ("bubble", "bubble_late", "bubble_other")
