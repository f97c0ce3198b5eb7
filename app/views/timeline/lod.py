"""Level of detail: as many rectangles as a picture can show, without losing a lone long span.

What lasts at least a pixel stays as it is. Shorter pieces of one row that begin in the same pixel
become one rectangle with the kind that covers most of it, how many pieces it stands for and the
time they cover; neighbouring pixels that look the same become one. A lone short piece stays exact.

Shape suffixes: S spans, E pieces before merging, R rectangles, B pixels with short pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.views.timeline.span_table import SpanTable
from ingest.intervals import Ints, Segments, owned_segments, parents
from ingest.readers.tables.nesting import depths as lanes

MOST_RECTANGLES = 60_000
MOST_LEVELS = 8
_LARGEST_PIXEL_NS = 1e18
_SHADES = 4
"""Neighbouring merged pixels are joined where their covered share falls into the same quarter."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of time in rows of lanes. `row`: any number, equal for what is drawn in one line;
    `ref`: index of what the piece is of.
    """

    row_E: Ints
    begin_E: Ints
    end_E: Ints
    kind_E: Ints
    ref_E: Ints

    @classmethod
    def joined(cls, parts: list[Pieces]) -> Pieces:
        """All pieces of several."""
        names = ("row_E", "begin_E", "end_E", "kind_E", "ref_E")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class Rectangles:
    """What is drawn, sorted by (row, begin). count 1: exact; busy: ns covered by its pieces;
    ref: of the longest piece.
    """

    row_R: Ints
    begin_R: Ints
    end_R: Ints
    kind_R: Ints
    ref_R: Ints
    count_R: Ints
    busy_R: Ints
    pixel_ns: float
    """what was merged is shorter than this; more than asked for where there was too much"""

    def joined(self, other: Rectangles) -> Rectangles:
        """The rectangles of both; the coarser of their pixels."""
        names = ("row_R", "begin_R", "end_R", "kind_R", "ref_R", "count_R", "busy_R")
        columns = [np.concatenate((getattr(self, name), getattr(other, name))) for name in names]
        order = np.lexsort((columns[1], columns[0]))
        return Rectangles(*(c[order] for c in columns), max(self.pixel_ns, other.pixel_ns))


def owned(spans: SpanTable) -> Segments:
    """Each instant of a track belongs to its innermost span: communication inside forward on one
    track is communication, not compute. Owners are indices of spans.
    """
    return owned_segments(_track_of_lane(spans), spans.begin_S, spans.end_S)


def innermost(spans: SpanTable, segments: Segments, row_S: Ints) -> Pieces:
    """What `owned` gives, and of several tracks in one row (lane x 3 + row) the one begun last."""
    span_E, begin_E, end_E = segments.owner_E, segments.begin_E, segments.end_E
    if _has_several_tracks(_track_of_lane(spans), row_S):
        flat = owned_segments(row_S[span_E], begin_E, end_E)
        span_E, begin_E, end_E = span_E[flat.owner_E], flat.begin_E, flat.end_E
    return Pieces(row_S[span_E], begin_E, end_E, spans.kind_S[span_E], span_E)


def _track_of_lane(spans: SpanTable) -> Ints:
    return spans.lane_S * (int(spans.track_S.max(initial=0)) + 1) + spans.track_S


def _has_several_tracks(track_S: Ints, row_S: Ints) -> bool:
    pairs = np.bincount(row_S * (int(track_S.max(initial=0)) + 1) + track_S)
    return int(np.count_nonzero(pairs)) > int(np.count_nonzero(np.bincount(row_S)))


def nested(spans: SpanTable, row_S: Ints) -> tuple[Pieces, Ints]:
    """Whole spans and the level of each in its row: tracks below each other, nesting downwards,
    and what overlaps on a track without being nested (kernels of one stream) stacked.
    """
    num_tracks = int(spans.track_S.max(initial=0)) + 1
    line_S = row_S * num_tracks + spans.track_S
    level_S = levels(line_S, spans.begin_S, spans.end_S)
    lines, index_S = np.unique(line_S, return_inverse=True)
    deepest = np.zeros(lines.size, dtype=np.int64)
    np.maximum.at(deepest, index_S, level_S)
    row_of_line = lines // num_tracks
    above = np.cumsum(deepest + 1) - (deepest + 1)
    first = np.searchsorted(row_of_line, row_of_line)
    base = above - above[first]
    level_S = np.minimum(base[index_S] + level_S, MOST_LEVELS - 1)
    all_spans = np.arange(len(spans))
    return Pieces(row_S, spans.begin_S, spans.end_S, spans.kind_S, all_spans), level_S


def levels(group_S: Ints, begin_S: Ints, end_S: Ints) -> Ints:
    """Level of each interval in its group, 0 uppermost; two of one level never overlap."""
    level_S = depths(group_S, begin_S, end_S)
    order = np.lexsort((begin_S, level_S, group_S))
    group, level = group_S[order], level_S[order]
    is_same = (group[1:] == group[:-1]) & (level[1:] == level[:-1])
    crossed = is_same & (begin_S[order][1:] < end_S[order][:-1])
    if crossed.any():
        stacked = np.flatnonzero(np.isin(group_S, np.unique(group[1:][crossed])))
        dur_ns = end_S[stacked] - begin_S[stacked]
        level_S[stacked] = lanes(group_S[stacked], begin_S[stacked], dur_ns)
    return level_S


def depths(group_S: Ints, begin_S: Ints, end_S: Ints) -> Ints:
    """How many intervals of the same group each one lies in."""
    parent_S = parents(group_S, begin_S, end_S)
    depth_S = np.zeros(group_S.size, dtype=np.int64)
    above_S = parent_S
    while (has_S := above_S >= 0).any():
        depth_S += has_S
        above_S = np.where(has_S, parent_S[above_S], -1)
    return depth_S


def rectangles(
    pieces: Pieces, origin_ns: int, pixel_ns: float, most: int = MOST_RECTANGLES
) -> Rectangles:
    """At most about `most` rectangles for pieces; pixels grow until they fit."""
    while True:
        merged = _merged(pieces, origin_ns, pixel_ns)
        if merged.row_R.size <= most or pixel_ns > _LARGEST_PIXEL_NS:
            return merged
        pixel_ns = max(pixel_ns * 2, 1.0)


def _merged(pieces: Pieces, origin_ns: int, pixel_ns: float) -> Rectangles:
    length_E = pieces.end_E - pieces.begin_E
    short_E = length_E < pixel_ns
    long = np.flatnonzero(~short_E)
    exact = [
        pieces.row_E[long],
        pieces.begin_E[long],
        pieces.end_E[long],
        pieces.kind_E[long],
        pieces.ref_E[long],
        np.ones(long.size, dtype=np.int64),
        length_E[long],
    ]
    binned = _joined_bins(_binned(pieces, np.flatnonzero(short_E), origin_ns, pixel_ns), pixel_ns)
    columns = [np.concatenate(pair) for pair in zip(exact, binned, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return Rectangles(*(column[order] for column in columns), pixel_ns)


def _binned(
    pieces: Pieces, short: Ints, origin_ns: int, pixel_ns: float
) -> tuple[list[Ints], Ints]:
    """One rectangle per row and pixel of the short pieces, and the pixel of each."""
    if not short.size:
        return [np.empty(0, dtype=np.int64)] * 7, np.empty(0, dtype=np.int64)
    pixel = np.floor((pieces.begin_E[short] - origin_ns) / pixel_ns).astype(np.int64)
    length = pieces.end_E[short] - pieces.begin_E[short]
    order = np.lexsort((length, pixel, pieces.row_E[short]))
    short, pixel, length = short[order], pixel[order], length[order]
    row = pieces.row_E[short]
    starts = _starts(row, pixel)
    lasts = np.append(starts[1:], short.size) - 1  # the longest of each pixel
    columns = [
        row[starts],
        np.minimum.reduceat(pieces.begin_E[short], starts),
        np.maximum.reduceat(pieces.end_E[short], starts),
        _dominant(pieces.kind_E[short], length, starts),
        pieces.ref_E[short[lasts]],
        lasts - starts + 1,
        np.add.reduceat(length, starts),
    ]
    return columns, pixel[starts]


def _starts(*keys: Ints) -> Ints:
    """Indices at which any of the sorted keys changes, the first included."""
    changes = np.zeros(keys[0].size, dtype=bool)
    changes[0] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changes)


def _dominant(kind: Ints, length: Ints, starts: Ints) -> Ints:
    """Per run the kind with the greatest sum of lengths."""
    num_kinds = int(kind.max()) + 1
    run = np.repeat(np.arange(starts.size), np.diff(np.append(starts, kind.size)))
    sums = np.bincount(run * num_kinds + kind, length, starts.size * num_kinds)
    return np.asarray(sums.reshape(starts.size, num_kinds).argmax(axis=1))


def _joined_bins(binned: tuple[list[Ints], Ints], pixel_ns: float) -> list[Ints]:
    """Merged pixels side by side that look the same become one rectangle."""
    columns, pixel_B = binned
    if not pixel_B.size:
        return columns
    row_B, begin_B, end_B, kind_B, ref_B, count_B, busy_B = columns
    is_merged_B = count_B > 1
    shade_B = np.minimum((busy_B / pixel_ns * _SHADES).astype(np.int64), _SHADES - 1)
    apart_B = np.arange(pixel_B.size) - pixel_B  # constant along pixels side by side
    alone_B = np.where(is_merged_B, -1, np.arange(pixel_B.size))
    starts = _starts(row_B, kind_B, shade_B, apart_B, alone_B)
    return [
        row_B[starts],
        begin_B[starts],
        np.maximum.reduceat(end_B, starts),
        kind_B[starts],
        ref_B[starts],
        np.add.reduceat(count_B, starts),
        np.add.reduceat(busy_B, starts),
    ]
