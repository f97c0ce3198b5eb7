"""What a dump says of a rank's last calls: the newest of each group and those without an end.

Rows of `entered` have the stack of their call, one row of `looks` that of the rank's last call. A
ring that has overrun lacks old entries; where the numbers of a group show that one of them has not
ended, a row of `entered` without an operation stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingest.readers.base import Sink
from ingest.readers.flight_recorder.dump import Dump
from ingest.readers.flight_recorder.entries import Entry
from ingest.readers.tables.process_groups import Group
from ingest.readers.tables.rows import rows
from ingest.readers.tables.stacks import stack_of
from trace_hooks.schema import UNKNOWN

SOURCE = "flight_recorder"
_MOST_OPEN = 64
_NEWEST_OF_GROUP = 2


@dataclass(frozen=True)
class Placed:
    """An entry, with its group and its number and peer among the job's ranks."""

    entry: Entry
    group: Group
    seq: int
    peer: int


def write_last_calls(
    sink: Sink, rank: int, dump: Dump, placed: Sequence[Placed], names: Mapping[int, str]
) -> None:
    """Rows of `entered` and `looks`; `names`: of the group of each pg_id."""
    newest_ns = max((one.entry.created_ns for one in placed), default=0)
    last = _last(placed)
    found = [
        _row(one, stack)
        for one in _chosen(placed)
        if (stack := _stack(dump, one.entry)) is not None
    ]
    found += _overrun(dump, placed, names, newest_ns)
    if found:
        columns = {name: [row[name] for row in found] for name in found[0]}
        shared = {"rank": rank, "ts_ns": newest_ns, "source": SOURCE}
        sink.add_rows("entered", rank, rows("entered", len(found), shared | columns))
    stack = None if last is None else _stack(dump, last.entry)
    if stack is not None or dump.is_part:
        number = UNKNOWN if dump.is_part else len(placed)
        look = {"rank": rank, "ts_ns": newest_ns, "num_entered": number, "source": SOURCE}
        sink.add_rows("looks", rank, rows("looks", 1, look | {"stack": [stack]}))


def _last(placed: Sequence[Placed]) -> Placed | None:
    """The newest that has not ended, else the newest."""
    still = [one for one in placed if one.entry.state != "completed"]
    return max(still or placed, key=lambda one: one.entry.created_ns, default=None)


def _chosen(placed: Sequence[Placed]) -> list[Placed]:
    by_group: dict[int, list[Placed]] = {}
    for one in placed:
        by_group.setdefault(one.group.group_id, []).append(one)
    kept = {id(one): one for of_group in by_group.values() for one in of_group[-_NEWEST_OF_GROUP:]}
    still = [one for one in placed if one.entry.state != "completed"]
    kept |= {id(one): one for one in still[:_MOST_OPEN]}
    return list(kept.values())


def _row(one: Placed, stack: str) -> dict[str, Any]:
    entry = one.entry
    return {
        "group_id": one.group.group_id,
        "seq": one.seq,
        "op": entry.op,
        "dtype": entry.dtype,
        "num_bytes": entry.num_bytes,
        "peer": one.peer,
        "enqueue_ns": entry.created_ns,
        "state": "completed" if entry.state == "completed" else "entered",
        "stack": stack,
    }


def _overrun(
    dump: Dump, placed: Sequence[Placed], names: Mapping[int, str], newest_ns: int
) -> Iterator[dict[str, Any]]:
    """Collectives that have not ended and whose entries newer ones have overwritten.

    Numbers of a group count its messages, too: groups that have any are left out.
    """
    if placed and placed[0].entry.record_id == 0:
        return
    for pg_id, numbers in dump.status.items():
        group = dump.groups.get(names.get(pg_id, ""))
        if group is None or not 0 <= numbers["completed"] < numbers["enqueued"]:
            continue
        own = [one for one in placed if one.group.group_id == group.group_id]
        seq = numbers["completed"] + 1
        if any(one.entry.is_p2p or one.seq <= seq for one in own):
            continue
        yield {
            "group_id": group.group_id,
            "seq": seq,
            "op": "",
            "dtype": "",
            "num_bytes": UNKNOWN,
            "peer": UNKNOWN,
            "enqueue_ns": min((one.entry.created_ns for one in own), default=newest_ns),
            "state": "entered",
            "stack": None,
        }


def _stack(dump: Dump, entry: Entry) -> str | None:
    frames = dump.frames.get(entry.record_id)
    return stack_of(
        (frame.get("name"), frame.get("filename"), frame.get("line"))
        for frame in (frames if isinstance(frames, list) else ())
        if isinstance(frame, dict)
    )
