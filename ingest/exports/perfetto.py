"""A run as a trace for ui.perfetto.dev; ingest/readers/rankscope_trace.py reads it back.

Format: the Trace Event Format of Chrome. A process is a rank (pid), a thread a track. ts is the
aligned time since t0 in microseconds with three decimals, so no nanosecond is lost; t0, Unix ns,
stands in otherData.rankscope in front of the events. It is the run's, or the first begin where that
is earlier: Perfetto drops negative times. What a picture cannot show as it is (times on
the rank's own clock where they differ, negative durations) is in its args.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ingest.errors import UserError
from ingest.exports.counters_and_marks import counters_and_marks
from ingest.exports.tracks import Arrow, Flows, Lanes
from ingest.exports.window import Window, microseconds, published
from ingest.run import Run
from trace_hooks.schema import SCHEMA_VERSION, SPAN_DEFAULTS, RankInfo

ROWS_AT_ONCE = 200_000
"""Spans sorted at once; a run with more is written part by part."""
_USUAL = {**SPAN_DEFAULTS, "args": None}
"""What a slice does not repeat."""
_STEP_TID = 1
_FIRST_TID = 2
_encode = msgspec.json.encode


class _Part(NamedTuple):
    """Spans that are sorted together, and what is added to their times to lie behind the others."""

    first_step: int
    last_step: int
    from_ns: int
    to_ns: int
    shift_ns: int
    begin_ns: int
    """first begin, aligned"""


@dataclass
class Written:
    """What a trace holds."""

    num_spans: int = 0
    num_flows: int = 0


def write_perfetto(run: Run, window: Window, out: Path) -> Written:
    """The trace of one attempt (the newest by default); raises UserError without any span in it."""
    attempt = run.newest_attempt if window.attempt is None else window.attempt
    window = Window(attempt, window.ranks, window.steps, window.t)
    written = Written()
    parts = _parts(run, window)
    t0_ns = min([run.info["created_ns"], *(part.begin_ns for part in parts)])
    with published(out) as file:
        file.write(b'{"otherData":{"rankscope":' + _encode(_about(run, attempt, t0_ns)))
        file.write(b'},"displayTimeUnit":"ns","traceEvents":[\n')
        separator = b""
        for event in _events(run, window, parts, t0_ns, written):
            file.write(separator + event)
            separator = b",\n"
        file.write(b"\n]}\n")
        if not written.num_spans:
            raise UserError(
                f"{run.folder.name} has no spans in this part; choose more ranks or steps, or "
                "export its tables with --format parquet"
            )
    return written


def _about(run: Run, attempt: int, t0_ns: int) -> dict[str, Any]:
    layout = run.layout(attempt)
    return {
        "schema": SCHEMA_VERSION,
        "run": run.info["run"],
        "t0_ns": t0_ns,
        "clock": run.info["clock"],
        "attempt": attempt,
        "layout": None if layout is None else layout.to_json(),
    }


def _events(
    run: Run, window: Window, parts: list[_Part], t0_ns: int, written: Written
) -> Iterator[bytes]:
    """Every event of the trace: ranks, groups, clocks, steps, memory, marks, then spans by time."""
    for info in run.ranks:
        if info["attempt"] == window.attempt and window.has_rank(info["rank"]):
            yield from _rank_events(info)
    yield from _metadata_rows(run, window, "rankscope_group", _GROUPS)
    yield from _metadata_rows(run, window, "rankscope_clock", _CLOCKS)
    shifts = {step: part.shift_ns for part in parts for step in _steps_of(part)}
    yield from _step_events(run, window, shifts, t0_ns)
    yield from counters_and_marks(run, window, shifts, t0_ns)
    yield from _span_events(run, window, parts, t0_ns, written)


_GROUPS = (
    "SELECT group_id, name, description AS desc, axis, ranks FROM group_members"
    " WHERE attempt = $attempt ORDER BY group_id"
)
_CLOCKS = (
    "SELECT rank, step, ts_ns, offset_ns, err_ns, drift_ppb, method FROM clocks"
    " WHERE attempt = $attempt ORDER BY rank, ts_ns"
)


def _metadata_rows(run: Run, window: Window, name: str, text: str) -> Iterator[bytes]:
    """Rows that a picture does not need and an import does, as metadata."""
    for row in run.execute(text, {"attempt": window.attempt}).to_pylist():
        if window.has_rank(row.get("rank", -1)) or "rank" not in row:
            yield _metadata(row.get("rank", 0), name, row)


def _metadata(pid: int, name: str, args: dict[str, Any], tid: int = 0) -> bytes:
    return _encode({"ph": "M", "pid": pid, "tid": tid, "name": name, "args": args})


def _rank_events(info: RankInfo) -> Iterator[bytes]:
    rank, coords = info["rank"], info.get("coords") or {}
    where = " ".join(f"{axis}{index}" for axis, index in coords.items())
    labels = ", ".join(filter(None, (info.get("host"), info.get("device"))))
    kept = ("world_size", "host", "device", "pid", "started_ns")
    end = info.get("end") or {}
    known = {key: info.get(key) for key in kept} | {"ended_ns": end.get("ts_ns")}
    yield _metadata(rank, "process_name", {"name": f"rank {rank} {where}".strip()})
    yield _metadata(rank, "process_sort_index", {"sort_index": rank})
    yield _metadata(rank, "process_labels", {"labels": labels})
    yield _metadata(rank, "rankscope_rank", known)


def _parts(run: Run, window: Window) -> list[_Part]:
    """The window in parts of some ROWS_AT_ONCE spans.

    Where times start again in each step, each step is a part, placed after the one before.
    """
    steps = run.ask("export_parts", limit_s=None, **window.params()).to_pylist()
    if run.info["clock"] == "per_step_relative":
        return _end_to_end(steps, run.info["created_ns"])
    parts: list[_Part] = []
    num_rows = ROWS_AT_ONCE
    for row in steps:
        pieces = -(-row["num_spans"] // ROWS_AT_ONCE)
        if pieces > 1:
            parts += _pieces(row, pieces)
            num_rows = ROWS_AT_ONCE
        elif parts and num_rows + row["num_spans"] <= ROWS_AT_ONCE:
            parts[-1] = _joined(parts[-1], _part(row))
            num_rows += row["num_spans"]
        else:
            parts.append(_part(row))
            num_rows = row["num_spans"]
    return parts


def _part(row: dict[str, Any], shift_ns: int = 0) -> _Part:
    step = row["step"]
    return _Part(step, step, row["first_ns"], row["last_ns"], shift_ns, row["begin_ns"] + shift_ns)


def _joined(part: _Part, next_part: _Part) -> _Part:
    from_ns, to_ns = min(part.from_ns, next_part.from_ns), max(part.to_ns, next_part.to_ns)
    begin_ns = min(part.begin_ns, next_part.begin_ns)
    return _Part(part.first_step, next_part.last_step, from_ns, to_ns, 0, begin_ns)


def _pieces(row: dict[str, Any], pieces: int) -> list[_Part]:
    first_ns, last_ns = row["first_ns"], row["last_ns"]
    width_ns = (last_ns - first_ns) // pieces + 1
    starts = range(first_ns, last_ns + 1, width_ns)
    whole = _part(row)
    return [whole._replace(from_ns=start, to_ns=start + width_ns - 1) for start in starts]


def _end_to_end(steps: list[dict[str, Any]], t0_ns: int) -> list[_Part]:
    placed, at_ns = [], t0_ns
    for row in steps:
        placed.append(_part(row, at_ns - row["first_ns"]))
        at_ns += row["end_ns"] - row["first_ns"]
    return placed


def _steps_of(part: _Part) -> Iterator[int]:
    if part.shift_ns:
        yield part.first_step


def _step_events(run: Run, window: Window, shifts: dict[int, int], t0_ns: int) -> Iterator[bytes]:
    params = {k: v for k, v in window.params().items() if not k.startswith("rank")}
    text, values = run.prepared("export_steps", **params)
    named: set[int] = set()
    with run.reading(text, values, limit_s=None) as batches:
        for row in (row for batch in batches for row in batch.to_pylist()):
            rank, step = row["rank"], row["step"]
            begin_ns = row["begin_ns"] + shifts.get(step, 0)
            at_ns = begin_ns - t0_ns
            if not window.has_rank(rank) or _is_outside(run, window, begin_ns, row["dur_ns"]):
                continue
            if rank not in named:
                named.add(rank)
                yield from _track_events(rank, _STEP_TID, "steps", "steps")
            args = {key: row[key] for key in ("loss", "grad_norm", "tokens", "flops", "lr")}
            args = {"step": step, **{k: v for k, v in args.items() if v is not None}}
            args |= _exact(row["start_ns"], begin_ns, row["dur_ns"])
            yield _complete(
                rank, _STEP_TID, at_ns, row["dur_ns"], b'"step"', _encode(f"step {step}"), args
            )


def _is_outside(run: Run, window: Window, begin_ns: int, dur_ns: int) -> bool:
    at_ns = begin_ns - run.info["created_ns"]
    return window.t is not None and (at_ns >= window.t[1] or at_ns + dur_ns < window.t[0])


def _track_events(rank: int, tid: int, label: str, track: str) -> Iterator[bytes]:
    yield _metadata(rank, "thread_name", {"name": label, "track": track}, tid)
    yield _metadata(rank, "thread_sort_index", {"sort_index": tid}, tid)


def _span_events(
    run: Run, window: Window, parts: list[_Part], t0_ns: int, written: Written
) -> Iterator[bytes]:
    lanes, flows = Lanes(_FIRST_TID), Flows(_group_sizes(run, window))
    for row, shift_ns in _rows(run, window, parts):
        rank, begin_ns, dur_ns = row["rank"], row["begin_ns"] + shift_ns, row["dur_ns"]
        lane = lanes.place(rank, row["track"], begin_ns, begin_ns + max(dur_ns, 0))
        if lane.is_new:
            yield from _track_events(rank, lane.tid, lane.label, row["track"])
        args = {"step": row["step"]}
        args |= {key: row[key] for key, usual in _USUAL.items() if row[key] != usual}
        args |= _exact(row["ts_ns"], begin_ns, dur_ns)
        at_ns = begin_ns - t0_ns
        name = _encode(row["name"])
        yield _complete(rank, lane.tid, at_ns, dur_ns, _encode(row["kind"]), name, args)
        written.num_spans += 1
        for arrow in flows.of(row, lane.tid, at_ns):
            written.num_flows += arrow.phase == "s"
            yield _flow(arrow, name)


def _flow(arrow: Arrow, name: bytes) -> bytes:
    end = b',"bp":"e"' if arrow.phase == "f" else b""
    return b'{"ph":"%s","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"collective","name":%s%s}' % (
        arrow.phase.encode(),
        arrow.number,
        arrow.rank,
        arrow.tid,
        microseconds(arrow.at_ns),
        name,
        end,
    )


def _rows(run: Run, window: Window, parts: list[_Part]) -> Iterator[tuple[dict[str, Any], int]]:
    """Every span of the window with what is added to its times, part by part."""
    t0_ns = run.info["created_ns"]
    params = window.params()
    for part in parts:
        params |= {"step_min": part.first_step, "step_max": part.last_step}
        params |= {"from_ns": part.from_ns, "to_ns": part.to_ns}
        if window.t is not None:
            base_ns = t0_ns - part.shift_ns
            params |= {"begin_ns": window.t[0] + base_ns, "end_ns": window.t[1] + base_ns}
        text, values = run.prepared("export_spans", **params)
        with run.reading(text, values, limit_s=None) as batches:
            for batch in batches:
                for row in batch.to_pylist():
                    yield row, part.shift_ns


def _group_sizes(run: Run, window: Window) -> dict[int, int]:
    rows = run.index_rows(
        "SELECT group_id, ranks FROM group_members WHERE attempt = $attempt",
        attempt=window.attempt,
    )
    return {row["group_id"]: sum(map(window.has_rank, row["ranks"])) for row in rows}


def _exact(own_ns: int, shown_ns: int, dur_ns: int) -> dict[str, int]:
    """Times as they were recorded, where ts and dur show something else."""
    exact = {} if own_ns == shown_ns else {"own_ts_ns": own_ns}
    return exact if dur_ns >= 0 else exact | {"own_dur_ns": dur_ns}


def _complete(
    rank: int, tid: int, at_ns: int, dur_ns: int, cat: bytes, name: bytes, args: dict[str, Any]
) -> bytes:
    return b'{"ph":"X","pid":%d,"tid":%d,"ts":%s,"dur":%s,"cat":%s,"name":%s,"args":%s}' % (
        rank,
        tid,
        microseconds(at_ns),
        microseconds(max(dur_ns, 0)),
        cat,
        name,
        _json(args),
    )


def _json(args: dict[str, Any]) -> bytes:
    try:
        return _encode(args)
    except (ValueError, OverflowError):
        return json.dumps(args).encode()
