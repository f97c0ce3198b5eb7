"""What the watchdog sees of its ranks while they make no progress: rows of `looks` and `entered`.

Where the pause of one is long (pauses.py), all ranks of the host are looked at, since a rank that
waits and one that is waited for tell little alone: at once, SECOND_S later with stacks, and every
EVERY_S from then on, until all of them go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trace_hooks.recording.clock import now
from trace_hooks.recording.flight_ring import END_UNKNOWN, NOT_ENDED, RingRecord, read_ring
from trace_hooks.watchdog.rank_status import Member, fetch_stacks
from trace_hooks.watchdog.stacks import threads_of

SECOND_S, EVERY_S = 3.0, 5.0
SELDOM_AFTER_S, SELDOM_S = 120.0, 30.0
"""What has been stuck for so long is looked at more seldom."""

NEWEST_OF_GROUP = 3
MOST_OPEN = 64
"""Rows of `entered` of a rank at a look: the newest of each group, and so many without an end."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Looks:
    """When the ranks of a host are looked at, and what was seen of them last."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._since_s: float | None = None  # of the first look at the present pause

    def are_due(self, members: Sequence[Member], now_s: float) -> bool:
        """Whether to look now; also once when all of them go on again."""
        is_long = any(member.pauses.is_long(now_s) for member in members)
        if not is_long:
            was_long, self._since_s = self._since_s is not None, None
            return was_long and bool(members)
        if self._since_s is not None and now_s < self._next_s:
            return False
        if self._since_s is None:
            self._since_s, self._next_s = now_s, now_s + SECOND_S
        else:
            stuck_s = now_s - self._since_s
            self._next_s = now_s + (EVERY_S if stuck_s < SELDOM_AFTER_S else SELDOM_S)
        return True

    def want_stacks(self, now_s: float) -> bool:
        """Whether this look is not the first at the present pause."""
        return self._since_s is not None and now_s > self._since_s


def look_at(members: Sequence[Member], with_stacks: bool) -> list[tuple[Member, Rows]]:
    """The rows of `looks` and `entered` of each rank, now."""
    stacks = fetch_stacks(members) if with_stacks else {}
    # while stacks were written, ranks went on, and some may have come to their end
    still = [member for member in members if member.read() and not member.header.ended]
    return [(member, _rows_of(member, stacks.get(member.ring, ""))) for member in still]


Rows = dict[str, list[dict[str, Any]]]
"""Rows by table, times on the host's monotonic clock."""


def _rows_of(member: Member, stacks: str) -> Rows:
    header, at_ns = member.header, now()
    records: list[RingRecord] = []
    with suppress(OSError, ValueError):
        records = read_ring(member.ring)[1]
    last = records[-1] if records else None  # newer than the heartbeat in the header
    main, others = threads_of(stacks)
    cpu_ns, state, mapped_bytes = _process(header.pid)
    io_bytes = _io_bytes(header.pid)
    look = {
        "ts_ns": at_ns,
        "step": max(header.step, last.step if last else header.step),
        "pid": header.pid,
        "process": "gone" if member.has_died else state,
        "phase": header.phase,
        "beat_age_ns": at_ns - header.beat_ns,
        "quiet_ns": int(member.pauses.quiet_s(time.monotonic()) * 1e9),
        "longest_ns": int(member.pauses.longest_s * 1e9),
        "num_entered": last.number if last else header.num_entered,
        "cpu_ns": cpu_ns,
        "io_bytes": io_bytes + mapped_bytes if io_bytes >= 0 else -1,
        "call": _call(header.pid),
        "stack": "\n".join(main) or None,
        "threads": "\n".join(others) or None,
    }
    return {"looks": [look], "entered": [_entered(record, at_ns) for record in newest(records)]}


def newest(records: Sequence[RingRecord]) -> list[RingRecord]:
    """The last NEWEST_OF_GROUP of each group, and the first MOST_OPEN that have not ended."""
    by_group: dict[tuple[int, int, str], list[RingRecord]] = {}
    for record in records:
        key = (record.group_id, record.peer, record.op if record.peer >= 0 else "")
        by_group.setdefault(key, []).append(record)
    kept = {
        record.number: record for rows in by_group.values() for record in rows[-NEWEST_OF_GROUP:]
    }
    still = [record for record in records if record.end_ns == NOT_ENDED]
    kept |= {record.number: record for record in still[:MOST_OPEN]}
    return [kept[number] for number in sorted(kept)]


def _entered(record: RingRecord, at_ns: int) -> dict[str, Any]:
    states = {NOT_ENDED: "entered", END_UNKNOWN: "unknown"}
    return {
        "ts_ns": at_ns,
        "step": record.step,
        "group_id": record.group_id,
        "seq": record.seq,
        "op": record.op,
        "dtype": record.dtype,
        "num_bytes": record.num_bytes,
        "peer": record.peer,
        "tag": record.tag,
        "enqueue_ns": record.time_ns,
        "state": states.get(record.end_ns, "completed"),
    }


def _process(pid: int) -> tuple[int, str, int]:
    """CPU time, state and bytes of mapped files that a process has read; (-1, '', 0) where unknown.

    Source: proc(5), stat: a major fault reads a page.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return -1, "", 0
    fields = text.rpartition(")")[2].split()
    cpu_ns = (int(fields[11]) + int(fields[12])) * 10**9 // _TICKS_PER_S
    return cpu_ns, fields[0], int(fields[9]) * _PAGE_BYTES


def _call(pid: int) -> str:
    """Kernel function in which the main thread waits; '' where it runs or that is not told."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/wchan").read_text("ascii", "replace").strip("0\n")
    return ""


def _io_bytes(pid: int) -> int:
    """Bytes that a process has read and written; -1 unknown. Source: proc(5), io."""
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii", errors="replace")
    except OSError:
        return -1
    values: Mapping[str, str] = dict(
        line.split(": ", 1) for line in text.splitlines() if ": " in line
    )
    return int(values.get("rchar", -1)) + int(values.get("wchar", 0))
