"""What step_rollup and kind_rollup have to say of a run, moment by moment and in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trace_hooks.schema import COMM_KINDS, COMPUTE_KINDS, KINDS

Row = Mapping[str, Any]
Cell = tuple[int, int]
Clocks = Mapping[int, list[tuple[int, int, int, int]]]
"""rank -> (valid from, ts, offset, drift) of each estimate, ascending"""


def rows_of(run: Path, table: str) -> list[Row]:
    """All rows of a table of a run that was merged, sorted as the files are."""
    tables = [pq.read_table(path) for path in sorted(run.glob(f"compacted/{table}-*.parquet"))]
    rows: list[Row] = pa.concat_tables(tables, promote_options="permissive").to_pylist()
    return rows


def windows(run: Path) -> dict[Cell, tuple[int, int]]:
    """(rank, step) -> the end of the step before and its own end, where both are recorded."""
    end = {(r["rank"], r["step"]): r["start_ns"] + r["dur_ns"] for r in rows_of(run, "steps")}
    return {
        (rank, step): (end[rank, step - 1], end[rank, step])
        for rank, step in end
        if (rank, step - 1) in end
    }


def cells_by_hand(
    run: Path, clocks: Clocks, sizes: Mapping[int, int], wanted: Iterable[Cell]
) -> dict[Cell, tuple[dict[str, int], dict[str, tuple[int, int, int]]]]:
    """Of each cell the sums of step_rollup, and by kind (time, exposed, number of spans)."""
    transfers = _transfers(rows_of(run, "collectives"), clocks, sizes)
    spans: dict[int, list[Row]] = defaultdict(list)
    for row in rows_of(run, "spans"):
        spans[row["rank"]].append(row)
    window = windows(run)
    return {
        (rank, step): _cell(*window[rank, step], step, spans[rank], transfers[rank])
        for rank, step in wanted
    }


def _transfers(
    rows: list[Row], clocks: Clocks, sizes: Mapping[int, int]
) -> dict[int, list[tuple[int, int, str]]]:
    """rank -> (begin, end, transfer or late) on its own clock."""
    members: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        pair: tuple[Any, ...] = ()
        if row["op"] in ("send", "recv"):
            ends = (row["rank"], row["peer"])
            pair = (*(ends if row["op"] == "send" else ends[::-1]), row["tag"])
        members[row["group_id"], pair, row["seq"]].append(row)
    found: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for (group, pair, _), rows in members.items():
        expected = 2 if pair else sizes[group]
        if len(rows) < max(expected, 2) or not all(clocks.get(row["rank"]) for row in rows):
            continue
        shifts = {id(row): _shift(clocks[row["rank"]], row["start_ns"]) for row in rows}
        *_, before_last, last = sorted(row["start_ns"] + shifts[id(row)] for row in rows)
        is_complete = all(row["end_ns"] >= 0 for row in rows)
        for row in rows:
            own_last = last - shifts[id(row)]
            if last > before_last:  # else nobody is waited for
                found[row["rank"]].append((row["start_ns"], own_last, "late"))
            if is_complete:
                end = min(r["end_ns"] + shifts[id(r)] for r in rows) - shifts[id(row)]
                found[row["rank"]].append((own_last, end, "transfer"))
    return found


def _shift(estimates: list[tuple[int, int, int, int]], moment: int) -> int:
    _, ts, offset, drift = [one for one in estimates if one[0] <= moment][-1]
    return offset + round(drift * ((moment - ts) / 1e9))


def _cell(
    begin: int, end: int, step: int, spans: list[Row], transfers: list[tuple[int, int, str]]
) -> tuple[dict[str, int], dict[str, tuple[int, int, int]]]:
    inside = [s for s in spans if s["ts_ns"] < end and s["ts_ns"] + s["dur_ns"] > begin]
    moved = [one for one in transfers if one[0] < end and one[1] > begin]
    borders = {begin, end}
    for first, last in [(s["ts_ns"], s["ts_ns"] + s["dur_ns"]) for s in inside] + [
        one[:2] for one in moved
    ]:
        borders |= {min(max(first, begin), end), min(max(last, begin), end)}
    sums: dict[str, int] = defaultdict(int)
    time: dict[str, int] = defaultdict(int)
    exposed: dict[str, int] = defaultdict(int)
    ordered = sorted(borders)
    for low, high in pairwise(ordered):
        owners: dict[str, Row] = {}
        for span in inside:
            if span["ts_ns"] <= low < span["ts_ns"] + span["dur_ns"]:
                other = owners.get(span["track"])
                if other is None or _is_inner(span, other):
                    owners[span["track"]] = span
        states = {state for first, last, state in moved if first <= low < last}
        _add(sums, time, exposed, high - low, list(owners.values()), states)
    count = {kind: sum(s["step"] == step and s["kind"] == kind for s in spans) for kind in KINDS}
    kinds = {
        kind: (time[kind], exposed[kind], count[kind])
        for kind in KINDS
        if time[kind] or count[kind]
    }
    return {**sums, "window": end - begin, "spans": sum(count.values())}, kinds


def _is_inner(span: Row, other: Row) -> bool:
    if span["ts_ns"] != other["ts_ns"]:
        return bool(span["ts_ns"] > other["ts_ns"])
    return bool(span["dur_ns"] <= other["dur_ns"])


def _add(
    sums: dict[str, int],
    time: dict[str, int],
    exposed: dict[str, int],
    length: int,
    owners: list[Row],
    states: set[str],
) -> None:
    """Add a piece of time in which these spans are the innermost of their tracks."""
    kinds = {owner["kind"] for owner in owners}
    is_compute, is_comm = bool(kinds & set(COMPUTE_KINDS)), bool(kinds & set(COMM_KINDS))
    is_data = "data_wait" in kinds or ("data_fetch" in kinds and not is_compute and not is_comm)
    is_bubble = bool(kinds) and not is_compute and not is_data and "transfer" not in states
    is_true = {
        "compute": is_compute,
        "recompute": is_compute and any(owner["recompute"] for owner in owners),
        "comm": is_comm,
        "exposed_comm": is_comm and not is_compute,
        "data_wait": is_data,
        "data_fetch": "data_fetch" in kinds,
        "other": bool(kinds & {"gc", "host", "checkpoint", "memcpy"})
        and not (is_compute or is_comm or is_data),
        "covered": bool(kinds),
        "bubble": is_bubble,
        "bubble_late": is_bubble and is_comm and "late" in states,
        "bubble_other": is_bubble and not is_comm,
    }
    for mode in {owner["mode"] for owner in owners}:
        sums[mode] += length
    for name, holds in is_true.items():
        sums[name] += length * holds
    for kind in kinds:
        time[kind] += length
        exposed[kind] += length * (not is_compute)
