"""MegaScan traces of MegatronApp: one file per rank, or the aggregated file of all ranks.

Format: https://github.com/OpenSQZ/MegatronApp (README of the tracers). In a rank's own file times
are nanoseconds since the iteration began on that rank's GPU; in the aggregated file microseconds on
one axis that its writer has made, with the global rank as pid.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from ingest.limits import limits
from ingest.readers.base import Format, Sink
from ingest.readers.parsing.json_events import EventStream, decode_objects, tolerant_object
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.begin_end_pairs import Track, pair_problems
from ingest.readers.tables.rank_grid import Grid
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.span_list import SpanList, write_steps
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock
from trace_hooks.schema import UNKNOWN

FORMAT = Format("megascan", "MegaScan", layout_from="coordinates")

Row = dict[str, Any]

_OF_ONE_RANK = re.compile(rb'"rel_ts"\s*:')
_AGGREGATED = re.compile(rb'"(?:related_sync_op|dp_rk|tp_rk)"\s*:|"model_chunk"\s*:')
_FILE_NAME = re.compile(r"data-(\d{1,6})-pipeline-(\d{1,6})-tensor-(\d{1,6})")
_PROCESS_NAME = re.compile(r"DP(\d{1,6})-PP(\d{1,6})-TP(\d{1,6})")
_KINDS = (
    (re.compile(r"forward|loss"), "forward"),
    (re.compile(r"backward"), "backward"),
    (re.compile(r"optimizer"), "optimizer"),
    (re.compile(r"(send|recv|exchange)-"), "pp_comm"),
    (re.compile(r"allreduce|all-?reduce|grad-sync"), "dp_comm"),
    (re.compile(r"_(reduce|gather|split|all_?to_?all)"), "tp_comm"),
)
_TRACK = "GPU"


def recognises(source: Source) -> bool:
    """Whether it is a file of one rank, or an aggregated one."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] != b"[" and b'"traceEvents"' not in head[:4096]:
        return False
    if b'"ph"' not in head:
        return False
    if _OF_ONE_RANK.search(head):
        return True
    return b'"iteration"' in head and bool(_AGGREGATED.search(head))


@dataclass
class _Rank:
    """What is found of one rank."""

    name: str
    spans: SpanList = field(default_factory=SpanList)
    coords: dict[str, int] = field(default_factory=dict)
    windows: list[tuple[int, int, int]] = field(default_factory=list)
    rank: int | None = None
    num_events: int = 0


def read(source: Source, staged: StagedRows) -> tuple[bool, list[_Rank]] | None:
    """Read one file: whether it is a rank's own, and its ranks."""
    of_one_rank = bool(_OF_ONE_RANK.search(source.head))
    stream = EventStream(source.read, decode_objects, tolerant_object)
    file = _OwnFile(source.name) if of_one_rank else _AggregatedFile(source.name)
    for batch in stream:
        file.add(batch)
    ranks = file.done()
    for problem in (*source.damages(), *stream.problems):
        staged.add_problem(f"{source.name}: {problem}")
    for problem in file.problems:
        staged.add_problem(problem)
    if not any(len(rank.spans) for rank in ranks):
        staged.add_problem(f"{source.name}: no span could be read")
        return None
    if of_one_rank:
        ranks[0].num_events = stream.num_elements
    return of_one_rank, ranks


class Import:
    """One import: the files of the ranks of a job, or aggregated ones."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._ranks: list[_Rank] = []
        self._is_relative: set[bool] = set()

    def add_file(self, file: tuple[bool, list[_Rank]]) -> None:
        """One file: whether it is a rank's own, and its ranks."""
        of_one_rank, ranks = file
        self._is_relative.add(of_one_rank)
        self._ranks += ranks

    def finish(self) -> None:
        """Number the ranks, all of which are known now, and write them."""
        if not self._ranks:
            return
        grid = Grid([rank.coords for rank in self._ranks], [rank.rank for rank in self._ranks])
        for guess in grid.guesses:
            self._sink.add_guess(guess)
        relative = True in self._is_relative
        self._sink.set_clock("per_step_relative" if relative else "unknown")
        if relative:
            self._sink.add_guess("iterations are numbered from 0 in the order of each file")
        names: dict[int, str] = {}
        for own, number in zip(self._ranks, grid.ranks, strict=True):
            if number in names:
                self._sink.add_problem(
                    f"{own.name}: is rank {number}, as {names[number]} is; left out"
                )
                continue
            names[number] = own.name
            self._write(own, number, grid, relative)

    def _write(self, rank: _Rank, number: int, grid: Grid, relative: bool) -> None:
        begin_ns, end_ns = rank.spans.extent()
        world_size = UNKNOWN if grid.layout is None else grid.layout.world_size
        self._sink.add_rank(
            rank_info(
                number,
                world_size=world_size,
                layout=grid.layout,
                started_ns=begin_ns,
                ended_ns=end_ns,
            )
        )
        self._sink.count_events(number, rank.num_events)
        stages = grid.layout.size("pp") if grid.layout is not None else 0
        rank.spans.place_chunks(stages, rank.coords.get("pp", 0))
        write_steps(self._sink, number, rank.windows or rank.spans.step_extents())
        rank.spans.write(self._sink, number, times_restart=relative)
        if not relative:
            add_imported_clock(self._sink, number, begin_ns)


class _OwnFile:
    """A rank's own file: iterations one after another, some perhaps written twice."""

    def __init__(self, name: str) -> None:
        self.problems: list[str] = []
        self._rank = _Rank(name)
        self._step = 0
        self._rows: list[Row] = []
        self._seen: set[bytes] = set()
        self._num_twice = self._num_alone = self._num_open = self._num_bad = 0
        match = _FILE_NAME.search(PurePath(name).name)
        if match:
            self._rank.coords = dict(zip(("dp", "pp", "tp"), map(int, match.groups()), strict=True))

    def add(self, batch: list[Row]) -> None:
        """Some more rows."""
        for row in batch:
            is_border = row.get("name") == "iteration"
            if is_border and row.get("ph") == "B":
                self._end_iteration()
            self._rows.append(row)
            if is_border and row.get("ph") == "E":
                self._end_iteration()

    def _end_iteration(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        digest = hashlib.blake2b(repr(rows).encode(), digest_size=16).digest()
        if digest in self._seen:
            self._num_twice += 1
            return
        self._seen.add(digest)
        track: Track[Row] = Track(self._emit)
        for row in rows:
            _learn_coordinates(self._rank, row)
            self._row(track, row)
        track.close()
        self._num_alone += track.num_ends_alone
        self._num_open += track.num_never_ended
        self._step += 1

    def _row(self, track: Track[Row], row: Row) -> None:
        name, ph, ts_ns = row.get("name"), row.get("ph"), _whole(row.get("rel_ts"))
        if name == "iteration":
            if ph == "E":
                dur_ns = _whole(row.get("duration_cuda"))
                dur_ns = ts_ns if dur_ns is None else dur_ns
                if dur_ns is not None and 0 <= dur_ns < 2**61:
                    self._rank.windows.append((self._step, 0, dur_ns))
        elif ts_ns is None or not isinstance(name, str):
            self._num_bad += 1
        elif ph == "B":
            track.begin(ts_ns, _kind(name, track.enclosing), name, row)
        elif ph == "E":
            track.end(ts_ns, name, row)

    def _emit(self, ts_ns: int, dur_ns: int, kind: str, name: str, begin: Row, end: Row) -> None:
        _add_span(self._rank.spans, ts_ns, dur_ns, kind, name, _TRACK, self._step, begin | end)

    def done(self) -> list[_Rank]:
        """The one rank of the file."""
        self._end_iteration()
        name = self._rank.name
        if self._num_twice:
            self.problems.append(
                f"{name}: contains {self._num_twice:,} iterations twice; each is read once"
            )
        if self._num_bad or self._rank.spans.num_refused:
            lost = self._num_bad + self._rank.spans.num_refused
            self.problems.append(f"{name}: {lost:,} rows without a usable time or name left out")
        pairs = pair_problems(self._num_alone, self._num_open)
        self.problems += [f"{name}: {problem}" for problem in pairs]
        return [self._rank]


class _AggregatedFile:
    """All ranks on one axis; rows may come in any order, so each track is sorted first."""

    def __init__(self, name: str) -> None:
        self.problems: list[str] = []
        self._name = name
        self._rows: dict[tuple[int, str], list[tuple[int, int, Row]]] = defaultdict(list)
        self._ranks: dict[int, _Rank] = {}
        self._num_bad = 0

    def add(self, batch: list[Row]) -> None:
        """Some more rows."""
        for row in batch:
            pid, ph = row.get("pid"), row.get("ph")
            args = row.get("args") if isinstance(row.get("args"), dict) else {}
            if not isinstance(pid, int) or not 0 <= pid < limits().max_ranks:
                self._num_bad += 1
                continue
            rank = self._ranks.setdefault(pid, _Rank(self._name, rank=pid))
            rank.num_events += 1
            if ph == "M":
                match = _PROCESS_NAME.search(str(args.get("name"))[:200]) if args else None
                if match:
                    values = map(int, match.groups())
                    rank.coords = dict(zip(("dp", "pp", "tp"), values, strict=True))
                continue
            ts_us = row.get("ts")
            if (
                not isinstance(ts_us, int | float)
                or not abs(ts_us) < 2**50
                or not isinstance(row.get("name"), str)
            ):
                self._num_bad += ph in ("B", "E", "X")
                continue
            if args:
                _learn_coordinates(rank, args)
            ts_ns = round(ts_us * 1000)
            self._rows[pid, str(row.get("tid"))].append((ts_ns, len(self._rows), row))

    def done(self) -> list[_Rank]:
        """Every rank that has spans."""
        num_twice = alone = never = 0
        for (pid, tid), rows in self._rows.items():
            rows.sort(key=lambda one: one[0])  # stable: ties stay as they came
            track: Track[Row] = Track(_emitter(self._ranks[pid].spans, tid))
            for ts_ns, row, is_again in _once(rows):
                num_twice += is_again
                if not is_again:
                    self._row(track, pid, tid, ts_ns, row)
            track.close()
            alone += track.num_ends_alone
            never += track.num_never_ended
        if num_twice:
            self.problems.append(
                f"{self._name}: contains {num_twice:,} rows twice; each is read once"
            )
        if self._num_bad:
            self.problems.append(
                f"{self._name}: {self._num_bad:,} rows without a usable time, name or rank left out"
            )
        self.problems += [f"{self._name}: {text}" for text in pair_problems(alone, never)]
        return [rank for rank in self._ranks.values() if len(rank.spans)]

    def _row(self, track: Track[Row], pid: int, tid: str, ts_ns: int, row: Row) -> None:
        name, ph, args = row["name"], row.get("ph"), row.get("args")
        known = args if isinstance(args, dict) else {}
        if ph == "B":
            track.begin(ts_ns, _kind(name, track.enclosing), name, known)
        elif ph == "E":
            track.end(ts_ns, name, known)
        elif ph == "X":
            dur_us = row.get("dur")
            if isinstance(dur_us, int | float) and 0 <= dur_us < 2**50:
                emit = _emitter(self._ranks[pid].spans, tid)
                emit(ts_ns, round(dur_us * 1000), _kind(name, ""), name, known, {})


def _once(rows: list[tuple[int, int, Row]]) -> Iterator[tuple[int, Row, bool]]:
    """Rows in order with whether each was there before, equal in everything."""
    at_ns: int | None = None
    seen: set[str] = set()
    for ts_ns, _, row in rows:
        if ts_ns != at_ns:
            at_ns, seen = ts_ns, set()
        key = repr(row)
        yield ts_ns, row, key in seen
        seen.add(key)


def _emitter(spans: SpanList, tid: str) -> Any:
    def emit(ts_ns: int, dur_ns: int, kind: str, name: str, begin: Row, end: Row) -> None:
        args = {**begin, **end}
        step = _whole(args.get("iteration"))
        track = f"{_TRACK} {tid}" if tid not in ("0", "None") else _TRACK
        _add_span(spans, ts_ns, dur_ns, kind, name, track, UNKNOWN if step is None else step, args)

    return emit


def _add_span(
    spans: SpanList, ts_ns: int, dur_ns: int, kind: str, name: str, track: str, step: int, args: Row
) -> None:
    microbatch = _whole(args.get("microbatch", args.get("micro_batch_index")))
    chunk, data = _whole(args.get("model_chunk")), _whole(args.get("data"))
    others = args.get("group")
    peer = others[0] if isinstance(others, list) and len(others) == 1 else None
    spans.add(
        ts_ns,
        dur_ns,
        kind,
        name,
        track,
        step,
        microbatch=UNKNOWN if microbatch is None else microbatch,
        chunk=UNKNOWN if chunk is None else chunk,
        num_bytes=UNKNOWN if data is None else data,
        peer=peer if type(peer) is int and kind == "pp_comm" else UNKNOWN,
    )


def _kind(name: str, enclosing: str) -> str:
    """Kind of a span by its name; parts of a forward or backward pass have that kind."""
    known = next((kind for pattern, kind in _KINDS if pattern.match(name)), "")
    return known or (enclosing if enclosing in ("forward", "backward") else "host")


def _learn_coordinates(rank: _Rank, args: Mapping[str, Any]) -> None:
    """Coordinates and global rank, where a row has them."""
    for axis in ("dp", "pp", "tp"):
        value = _whole(args.get(f"{axis}_rk", args.get(f"{axis}_rank")))
        if value is not None and 0 <= value < 1 << 20:
            rank.coords.setdefault(axis, value)
    number = _whole(args.get("g_rk"))
    if rank.rank is None and number is not None and 0 <= number < limits().max_ranks:
        rank.rank = number


def _whole(value: object) -> int | None:
    return value if type(value) is int and abs(value) < 2**62 else None
