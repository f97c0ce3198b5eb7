"""Spans of one rank as they are found one by one, in some 70 bytes each, and given to the sink."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.limits import limits, variable
from ingest.readers.base import Sink
from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables.nesting import depths
from ingest.readers.tables.rows import Coded, rows
from trace_hooks.schema import BEFORE_FIRST_STEP, KINDS, UNKNOWN

ROWS_AT_ONCE = 1 << 18
MAX_STEP = 2**53
BEFORE_FIRST_IN_FILE = -2
"""Step of a span that lies before the first one by its file; SpanList.fill_steps makes it -1."""
_INT32 = 2**31
_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}


class TooMany(ValueError):
    """A rank has more spans than an import takes."""


class Codes(dict[Any, int]):
    """Numbers keys in order of first appearance."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code


_CODES = {
    "ts_ns": "q",
    "dur_ns": "q",
    "step": "q",
    "name": "i",
    "track": "i",
    "kind": "b",
    "microbatch": "i",
    "chunk": "i",
    "num_bytes": "q",
    "peer": "i",
    "group_id": "q",
    "coll_seq": "q",
}


class SpanList:
    """Spans of one rank; `num_refused` counts those whose times no span can have.

    Tracks and names are texts, or anything else that texts are made of when the spans are written.
    """

    def __init__(self) -> None:
        self.num_refused = 0
        self._most = limits().max_rows
        self._names, self._tracks = Codes(), Codes()
        self._columns = {name: array(code) for name, code in _CODES.items()}
        self._add = [column.append for column in self._columns.values()]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_add"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._add = [column.append for column in self._columns.values()]

    def __len__(self) -> int:
        return len(self._columns["ts_ns"])

    def add(
        self,
        ts_ns: int,
        dur_ns: int,
        kind: str,
        name: Hashable,
        track: Hashable,
        step: int = BEFORE_FIRST_STEP,
        microbatch: int = UNKNOWN,
        chunk: int = UNKNOWN,
        num_bytes: int = UNKNOWN,
        peer: int = UNKNOWN,
        group_id: int = 0,
        coll_seq: int = UNKNOWN,
    ) -> None:
        """One span; a negative duration counts as none. Raises TooMany above the limit."""
        if not (abs(ts_ns) < MAX_NS and dur_ns < MAX_NS and abs(step) < MAX_STEP):
            self.num_refused += 1
            return
        if len(self) >= self._most:
            most = f"{variable('max_rows')}={self._most}"
            raise TooMany(f"has more spans than {most}; raise the limit to read them all")
        values = (
            ts_ns,
            max(dur_ns, 0),
            step,
            self._names[name],
            self._tracks[track],
            _KIND_CODES[kind],
            _small(microbatch),
            _small(chunk),
            num_bytes if 0 <= num_bytes < MAX_NS else UNKNOWN,
            _small(peer),
            group_id,
            coll_seq,
        )
        for append, value in zip(self._add, values, strict=True):
            append(value)

    def _array(self, name: str) -> npt.NDArray[Any]:
        column = self._columns[name]
        kind = np.dtype(column.typecode)
        return np.frombuffer(column, kind) if len(column) else np.empty(0, kind)

    def part(self, keeps: Callable[[Any], bool]) -> SpanList:
        """The spans of some tracks."""
        kept = np.array([keeps(track) for track in self._tracks], np.bool_)
        mask = kept[self._array("track")] if len(self) else np.empty(0, np.bool_)
        part = SpanList()
        part._names, part._tracks = self._names, self._tracks
        for name, column in part._columns.items():
            column.frombytes(self._array(name)[mask].tobytes())
        return part

    def shift(self, by_ns: int) -> None:
        """Move all times; what leaves the range of times is set to its border."""
        moved = np.clip(self._array("ts_ns") + by_ns, -MAX_NS, MAX_NS)
        self._columns["ts_ns"] = array("q", moved.tobytes())

    def fill_steps(self, windows: list[tuple[int, int, int]]) -> None:
        """Give spans without a step the one that began last; windows are (step, begin, end)."""
        starts = np.array([begin for _, begin, _ in windows], np.int64)
        steps = np.array([BEFORE_FIRST_STEP, *(step for step, _, _ in windows)], np.int64)
        own = self._array("step")
        by_time = steps[np.searchsorted(starts, self._array("ts_ns"), side="right")]
        filled = np.where(own == BEFORE_FIRST_STEP, by_time, np.maximum(own, BEFORE_FIRST_STEP))
        self._columns["step"] = array("q", filled.tobytes())

    def place_chunks(self, num_stages: int, stage: int) -> None:
        """Turn a stage's own chunk numbers into global ones; -1 where the stages are not known."""
        local = self._array("chunk").astype(np.int64)
        placed = local * num_stages + stage
        known = (local >= 0) & (num_stages > 0) & (placed < _INT32)
        self._columns["chunk"] = array(
            "i", np.where(known, placed, UNKNOWN).astype(np.int32).tobytes()
        )

    def extent(self) -> tuple[int, int]:
        """First begin and last end in ns; 0, 0 without spans."""
        if not len(self):
            return 0, 0
        ts_ns = self._array("ts_ns")
        return int(ts_ns.min()), int((ts_ns + self._array("dur_ns")).max())

    def step_extents(self) -> list[tuple[int, int, int]]:
        """(step, first begin, last end) of every step from 0 on, ascending."""
        steps, ts_ns = self._array("step"), self._array("ts_ns")
        end_ns = ts_ns + self._array("dur_ns")
        extents = []
        order = np.argsort(steps, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(steps[order])) + 1):
            if len(part) and steps[part[0]] >= 0:
                begin_ns, last_ns = int(ts_ns[part].min()), int(end_ns[part].max())
                extents.append((int(steps[part[0]]), begin_ns, last_ns))
        return extents

    def write(
        self,
        sink: Sink,
        rank: int,
        times_restart: bool = False,
        label: Callable[[Any], str] = str,
        rename: Callable[[Any], str] = str,
    ) -> None:
        """Give them to the sink in order of time, a piece at a time.

        `times_restart`: times start again in each step, so that steps share no track. Tracks with
        one `label` are one; `rename` makes texts of names.
        """
        labels = Codes()
        codes = np.array([labels[label(track)] for track in self._tracks], np.int64)
        columns = {name: self._array(name) for name in _CODES}
        track = codes[columns["track"]] if len(self) else np.empty(0, np.int64)
        ts_ns, step, lane = columns["ts_ns"], columns["step"], track
        if times_restart:
            lane = np.unique(step, return_inverse=True)[1] * len(labels) + track
        depth = depths(lane, ts_ns, columns["dur_ns"])
        order = np.lexsort((ts_ns, step)) if times_restart else np.argsort(ts_ns, kind="stable")
        names, tracks = [rename(name) for name in self._names], list(labels)
        for start in range(0, len(order), ROWS_AT_ONCE):
            part = order[start : start + ROWS_AT_ONCE]
            texts = {
                "kind": Coded(columns["kind"][part], KINDS),
                "name": Coded(columns["name"][part], names),
                "track": Coded(track[part], tracks),
            }
            numbers = {name: column[part] for name, column in columns.items()}
            values = {**numbers, **texts, "rank": rank, "depth": depth[part]}
            sink.add_rows("spans", rank, rows("spans", len(part), values))


def _small(value: int) -> int:
    """The value where it fits into int32; -1 where it does not."""
    return value if 0 <= value < _INT32 else UNKNOWN


def write_steps(sink: Sink, rank: int, windows: list[tuple[int, int, int]]) -> None:
    """Rows of `steps` from (step, begin, end)."""
    columns = {
        "rank": rank,
        "step": [step for step, _, _ in windows],
        "start_ns": [begin for _, begin, _ in windows],
        "dur_ns": [end - begin for _, begin, end in windows],
    }
    if windows:
        sink.add_rows("steps", rank, rows("steps", len(windows), columns))
