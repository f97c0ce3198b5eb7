"""Spans of one rank as they are found one by one, in some 70 bytes each, and given to the sink."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.readers import Sink
from ingest.readers.kineto_events import MAX_NS
from ingest.readers.limits import limits, variable
from ingest.readers.nesting import depths
from ingest.readers.rows import Coded, rows
from trace_hooks.schema import BEFORE_FIRST_STEP, KINDS, UNKNOWN

ROWS_AT_ONCE = 1 << 18
MAX_STEP = 2**53
_INT32 = 2**31


class TooMany(ValueError):
    """A rank has more spans than an import takes."""


class Codes(dict[Any, int]):
    """Numbers keys in order of first appearance."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code


class SpanList:
    """Spans of one rank; `num_refused` counts those whose times no span can have."""

    def __init__(self) -> None:
        self.num_refused = 0
        self._most = limits().max_rows
        self._names, self._tracks = Codes(), Codes()
        self._ts, self._dur, self._step = array("q"), array("q"), array("q")
        self._name, self._track, self._kind = array("i"), array("i"), array("b")
        self._microbatch, self._chunk = array("i"), array("i")
        self._bytes, self._peer = array("q"), array("i")

    def __len__(self) -> int:
        return len(self._ts)

    def add(
        self,
        ts_ns: int,
        dur_ns: int,
        kind: str,
        name: str,
        track: str,
        step: int = BEFORE_FIRST_STEP,
        microbatch: int = UNKNOWN,
        chunk: int = UNKNOWN,
        num_bytes: int = UNKNOWN,
        peer: int = UNKNOWN,
    ) -> None:
        """One span; a negative duration counts as none. Raises TooMany above the limit."""
        if not (abs(ts_ns) < MAX_NS and dur_ns < MAX_NS and abs(step) < MAX_STEP):
            self.num_refused += 1
            return
        if len(self._ts) >= self._most:
            raise TooMany(f"has more spans than {variable('max_rows')}={self._most}")
        self._ts.append(ts_ns)
        self._dur.append(max(dur_ns, 0))
        self._step.append(step)
        self._name.append(self._names[name])
        self._track.append(self._tracks[track])
        self._kind.append(KINDS.index(kind))
        self._microbatch.append(_small(microbatch))
        self._chunk.append(_small(chunk))
        self._bytes.append(num_bytes if 0 <= num_bytes < MAX_NS else UNKNOWN)
        self._peer.append(_small(peer))

    def place_chunks(self, num_stages: int, stage: int) -> None:
        """Turn a stage's own chunk numbers into global ones; -1 where the stages are not known."""
        local = np.frombuffer(self._chunk, np.int32).astype(np.int64)
        known = (local >= 0) & (num_stages > 0)
        self._chunk = array("i", np.where(known, local * num_stages + stage, UNKNOWN).tolist())

    def extent(self) -> tuple[int, int]:
        """First begin and last end in ns; 0, 0 without spans."""
        if not len(self._ts):
            return 0, 0
        ts_ns = _int64(self._ts)
        return int(ts_ns.min()), int((ts_ns + _int64(self._dur)).max())

    def step_extents(self) -> list[tuple[int, int, int]]:
        """(step, first begin, last end) of every step from 0 on, ascending."""
        steps, ts_ns = _int64(self._step), _int64(self._ts)
        end_ns = ts_ns + _int64(self._dur)
        found = []
        order = np.argsort(steps, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(steps[order])) + 1):
            if len(part) and steps[part[0]] >= 0:
                begin_ns, last_ns = int(ts_ns[part].min()), int(end_ns[part].max())
                found.append((int(steps[part[0]]), begin_ns, last_ns))
        return found

    def write(self, sink: Sink, rank: int, times_restart: bool = False) -> None:
        """Give them to the sink in order of time, a piece at a time.

        `times_restart`: times begin anew in each step, so that steps share no track.
        """
        ts_ns, dur_ns, step = _int64(self._ts), _int64(self._dur), _int64(self._step)
        track = np.frombuffer(self._track, np.int32).astype(np.int64)
        lane = track
        if times_restart:
            lane = np.unique(step, return_inverse=True)[1] * len(self._tracks) + track
        depth = depths(lane, ts_ns, dur_ns)
        order = np.lexsort((ts_ns, step)) if times_restart else np.argsort(ts_ns, kind="stable")
        names, tracks = list(self._names), list(self._tracks)
        for start in range(0, len(order), ROWS_AT_ONCE):
            part = order[start : start + ROWS_AT_ONCE]
            columns = {
                "rank": rank,
                "step": step[part],
                "ts_ns": ts_ns[part],
                "dur_ns": dur_ns[part],
                "kind": Coded(np.frombuffer(self._kind, np.int8)[part], KINDS),
                "name": Coded(np.frombuffer(self._name, np.int32)[part], names),
                "track": Coded(track[part], tracks),
                "depth": depth[part],
                "microbatch": np.frombuffer(self._microbatch, np.int32)[part],
                "chunk": np.frombuffer(self._chunk, np.int32)[part],
                "num_bytes": _int64(self._bytes)[part],
                "peer": np.frombuffer(self._peer, np.int32)[part],
            }
            sink.add_rows("spans", rank, rows("spans", len(part), columns))


def _int64(values: array[int]) -> npt.NDArray[np.int64]:
    return np.frombuffer(values, np.int64) if len(values) else np.empty(0, np.int64)


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
