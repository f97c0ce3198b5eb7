"""veScale's NDTimeline: operations of all ranks of a host, by steps, as LocalTimelineNDHandler
writes them.

A list of Chrome events in a file trace_stepFIRST_LAST; `pid` is the data-parallel rank, `tid` is
10 x rank + number of the track, `args` are rank, step, tp and pp. Times are microseconds since the
epoch, on the one clock that NDTimeline keeps for all hosts. Source:
https://github.com/volcengine/veScale (vescale/ndtimeline/handlers/local_timeline_handler.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import permutations
from math import prod

import msgspec
import numpy as np

from ingest.limits import limits
from ingest.readers.base import Format, Sink
from ingest.readers.parsing.exact_times import microseconds_to_ns
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_NS, Event, event_stream
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.span_list import MAX_STEP, SpanList, write_steps
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock
from trace_hooks.layout import ParallelLayout

FORMAT = Format(
    "ndtimeline", "veScale NDTimeline", layout_from="coordinates", is_operation_trace=True
)

_AXES = ("pp", "dp", "tp")
_TRACKS = ("main", "pp ->", "pp <-", "pp send/recv", "tp collective", "dp collective", "other")
_EVENT = re.compile(
    rb'"tid"\s*:\s*(\d{1,9})\s*,\s*"args"\s*:\s*\{\s*"rank"\s*:\s*(\d{1,8})\s*,\s*"step"\s*:'
    rb'\s*-?\d{1,15}\s*,\s*"tp"\s*:\s*-?\d{1,8}\s*,\s*"pp"\s*:\s*-?\d{1,8}\s*\}'
)
_SAME_AS = {
    "unshard-all-gather": "params-all-gather",
    "params-all-gather-nonoverlapping": "params-all-gather",
    "grad-reduce-scatter": "grads-reduce-scatter",
    "grads-reduce-scatter-nonoverlapping": "grads-reduce-scatter",
    "grad-all-reduce": "separate-grads-all-reduce",
}
"""Operations that What-if knows by another name."""
_KINDS = {
    "forward-compute": "forward",
    "backward-compute": "backward",
    "params-all-gather": "dp_comm",
    "grads-reduce-scatter": "dp_comm",
    "separate-grads-all-reduce": "dp_comm",
    "layernorm-grads-all-reduce": "tp_comm",
    "embedding-grads-all-reduce": "pp_comm",
    "optimizer-clip-main-grad": "other_comm",
}
_MESSAGE = re.compile(r"(?:forward|backward)-(?:send|recv)")


def recognises(source: Source) -> bool:
    """Whether an event has the arguments of NDTimeline, and a thread of its rank."""
    event = _EVENT.search(source.head)
    return event is not None and int(event[1]) // 10 == int(event[2])


class _Args(msgspec.Struct):
    rank: int
    step: int
    tp: int
    pp: int


_decode = msgspec.json.Decoder(_Args).decode


@dataclass
class _Rank:
    """What a file has of one rank: `coords` on pp, dp and tp."""

    coords: tuple[int, int, int]
    spans: SpanList = field(default_factory=SpanList)
    counts: dict[tuple[int, str], int] = field(default_factory=dict)
    """operations so far by step and name: their numbers are those of micro-batches"""


@dataclass
class _File:
    """One file, read."""

    name: str
    ranks: dict[int, _Rank] = field(default_factory=dict)
    num_split: int = 0
    num_bad: int = 0
    num_events: int = 0


def read(source: Source, staged: StagedRows) -> _File:
    """Read one file."""
    file, stream = _File(source.name), event_stream(source.read, Event)
    for batch in stream:
        file.num_events += len(batch)
        _add(file, [event for event in batch if event.ph == "X"])
    problems = [*source.damages(), *stream.problems]
    refused = file.num_bad + sum(rank.spans.num_refused for rank in file.ranks.values())
    if refused:
        problems.append(f"{refused:,} events without a time, a rank or a step were left out")
    for problem in problems:
        staged.add_problem(f"{source.name}: {problem}")
    return file


def _add(file: _File, events: list[Event]) -> None:
    if not events:
        return
    ts_ns, has_ts = microseconds_to_ns([event.ts for event in events])
    dur_ns, has_dur = microseconds_to_ns([event.dur for event in events])
    usable = has_ts & has_dur & (np.abs(ts_ns) < MAX_NS) & (dur_ns < MAX_NS)
    for event, at_ns, took_ns, is_usable in zip(
        events, ts_ns.tolist(), dur_ns.tolist(), usable.tolist(), strict=True
    ):
        try:
            args = _decode(event.args)
        except (ValueError, RecursionError):
            args = None
        rank = None if args is None else _rank_of(file, event, args)
        if args is None or rank is None or not is_usable:
            file.num_bad += 1
        else:
            _add_operation(file, rank, event, args.step, at_ns, took_ns)


def _rank_of(file: _File, event: Event, args: _Args) -> _Rank | None:
    """The rank of an event; None for one that no job has, or that is elsewhere by another event."""
    dp, most = event.pid, limits().max_ranks
    if not isinstance(dp, int) or not 0 <= args.step < MAX_STEP:
        return None
    coords = (args.pp, dp, args.tp)
    if not 0 <= args.rank < most or not all(0 <= index < most for index in coords):
        return None
    rank = file.ranks.setdefault(args.rank, _Rank(coords))
    return rank if rank.coords == coords else None


def _add_operation(
    file: _File, rank: _Rank, event: Event, step: int, at_ns: int, took_ns: int
) -> None:
    own_name = event.name or ""
    name = _SAME_AS.get(own_name, own_name)
    number = event.tid % 10 if isinstance(event.tid, int) else len(_TRACKS)
    track = _TRACKS[number] if number < len(_TRACKS) else _TRACKS[-1]
    parts = _MESSAGE.findall(name)
    if len(parts) > 1:  # one call of batch_isend_irecv
        file.num_split += 1
        for part in parts:
            rank.spans.add(at_ns, took_ns, "pp_comm", part, f"{track} {part}", step)
        return
    microbatch = chunk = -1
    if name in ("forward-compute", "backward-compute"):
        microbatch, chunk = rank.counts.get((step, name), 0), rank.coords[0]
        rank.counts[step, name] = microbatch + 1
    rank.spans.add(at_ns, took_ns, _kind(name), name, track, step, microbatch, chunk)


def _kind(name: str) -> str:
    if name in _KINDS:
        return _KINDS[name]
    if name.startswith("optimizer"):
        return "optimizer"
    if name.startswith("tp-"):
        return "tp_comm"
    return "pp_comm" if name.endswith(("-send", "-recv")) else "host"


class Import:
    """One import: files of several hosts and stretches of steps."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._files: list[_File] = []

    def add_file(self, file: _File) -> None:
        """One file."""
        self._files.append(file)

    def finish(self) -> None:
        """Write all ranks, and what was decided about all of them."""
        coords = {rank: own.coords for file in self._files for rank, own in file.ranks.items()}
        if not coords:
            self._sink.add_problem("no operation of any rank could be read")
            return
        layout = _layout(coords)
        self._add_guesses(layout)
        seen: dict[int, set[int]] = {}
        extents: dict[int, list[int]] = {}
        for file in self._files:
            for rank, own in sorted(file.ranks.items()):
                if own.coords != coords[rank] or self._has_again(file.name, rank, own, seen):
                    continue
                begin_ns, end_ns = own.spans.extent()
                extents.setdefault(rank, []).extend((begin_ns, end_ns))
                write_steps(self._sink, rank, own.spans.step_extents())
                own.spans.write(self._sink, rank)
        for rank, times in sorted(extents.items()):
            world_size = -1 if layout is None else layout.world_size
            info = rank_info(
                rank,
                world_size=world_size,
                layout=layout,
                started_ns=min(times),
                ended_ns=max(times),
            )
            self._sink.add_rank(info)
            add_imported_clock(self._sink, rank, min(times))

    def _has_again(self, name: str, rank: int, own: _Rank, seen: dict[int, set[int]]) -> bool:
        """Whether an earlier file has one of these steps of the rank; says so."""
        steps = {step for step, _, _ in own.spans.step_extents()}
        again = steps & seen.setdefault(rank, set())
        if again:
            self._sink.add_problem(
                f"{name}: step {min(again):,} of rank {rank} is in an earlier file, too; left out"
            )
        else:
            seen[rank] |= steps
        return bool(again)

    def _add_guesses(self, layout: ParallelLayout | None) -> None:
        if layout is None:
            self._sink.add_guess(
                "the parallel layout is unknown, because the ranks that were given do not fill a "
                "complete grid; give the files of all hosts, or set it with `rankscope layout`"
            )
        else:
            self._sink.add_guess(
                f"the layout {layout} is taken from the coordinates of the ranks that are here"
            )
        self._sink.add_guess(
            "files name no model chunks and no micro-batches: one chunk per stage is assumed, and "
            "forwards and backwards of a step are numbered in their order"
        )
        if split := sum(file.num_split for file in self._files):
            self._sink.add_guess(
                f"{split:,} operations that send and receive at once are shown as one of each, "
                "both as long as the whole"
            )


def _layout(coords: dict[int, tuple[int, int, int]]) -> ParallelLayout | None:
    """The order of the axes in which ranks 0, 1, 2, ... have these coordinates; None for none."""
    sizes = {axis: max(own[i] for own in coords.values()) + 1 for i, axis in enumerate(_AXES)}
    if prod(sizes.values()) != len(coords) or set(coords) != set(range(len(coords))):
        return None
    for order in permutations(_AXES):
        layout = ParallelLayout(tuple((axis, sizes[axis]) for axis in order))
        places = {rank: layout.coords(rank) for rank in coords}
        if all(tuple(places[rank][axis] for axis in _AXES) == at for rank, at in coords.items()):
            return layout
    return None
