"""PyTorch Flight Recorder dumps 2.x: pickle or JSON, one file per rank, named by the rank.

Format: https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/FlightRecorder.hpp
A dump holds which collectives and messages a rank had enqueued last. Its *_discovered_* times are
when a watchdog looked, not when anything ran; where that never happened they are 0 or null.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingest.readers.base import Format, Sink
from ingest.readers.flight_recorder.dump import PICKLE, Dump, read_dump
from ingest.readers.flight_recorder.entries import Numbering
from ingest.readers.flight_recorder.last_calls import Placed, write_last_calls
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.process_groups import Group, write_groups
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock
from trace_hooks.schema import UNKNOWN

FORMAT = Format("flight_recorder", "PyTorch Flight Recorder", has_own_clocks=True)

_OF_DUMPS = (b"pg_config", b"profiling_name")
_WORDS = (
    *_OF_DUMPS,
    b"entries",
    b"pg_status",
    b"collective_seq_id",
    b"comm_lib_version",
    b"nccl_version",
    b"record_id",
)
_ROWS_AT_ONCE = 1 << 18
_LEAST_PATIENCE_NS = 600 * 10**9
"""Ranks of one attempt stop within the timeout of a collective, by default 10 minutes."""


def recognises(source: Source) -> bool:
    """Whether it is a dump in either encoding, or a part of one."""
    head = source.head
    if not PICKLE.match(head) and (head.lstrip()[:1] != b"{" or b'"traceEvents"' in head):
        return False
    is_of_dumps = any(word in head for word in _OF_DUMPS)
    return is_of_dumps and sum(word in head for word in _WORDS) >= 2


@dataclass
class _Written:
    """One dump whose rows are written."""

    name: str
    rank: int
    layout: str
    """empty where it is not known"""
    newest_ns: int
    """when the last entry was made; 0 without entries"""
    timeout_ns: int
    note: str
    """about the dump as a whole"""
    last: str
    """the last numbers of each group, JSON"""
    groups: tuple[Group, ...]
    """those its pg_config describes"""


_Found = tuple[_Written, StagedRows] | Dump


def read(source: Source, staged: StagedRows) -> _Found | None:
    """Read one dump; its rows are staged apart where its rank and groups are known."""
    dump = read_dump(source, staged)
    if dump is None or dump.rank is None or dump.lost_its_groups:
        return dump
    rows_of_dump = staged.another()
    return _write(dump, dump.rank, rows_of_dump), rows_of_dump


class Import:
    """One import: the dumps of a job. Which ones count is only known once all are there: files of
    an earlier attempt may lie among them, since a rank overwrites only its own.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._written: dict[int, _Written] = {}
        self._found: list[_Found] = []

    def add_file(self, dump: _Found) -> None:
        """One dump."""
        self._found.append(dump)

    def finish(self) -> None:
        """Write the dumps that count, and what each rank had enqueued last."""
        if any(_rank_of(found) is not None for found in self._found):
            self._sink.add_guess(
                "the ranks are taken from the file names: dumps do not contain them"
            )
        for found in self._that_count():
            if isinstance(found, Dump):
                self._place(found)
            else:
                written, rows_of_dump = found
                rows_of_dump.give_to(self._sink)
                self._written[written.rank] = written
        layouts = {written.layout for written in self._written.values()}
        if layouts == {""} and len(self._written) > 1:
            self._sink.add_guess(
                "the parallel layout is unknown, because the groups' descriptions do not spell it "
                "out; `rankscope layout` can set it"
            )
        self._write_notes()

    def _that_count(self) -> list[_Found]:
        """Of each rank the newest dump of the newest attempt; those without a rank come last."""
        newest_ns = max(map(_newest_ns, self._found), default=0)
        patience_ns = max(_LEAST_PATIENCE_NS, *map(_timeout_ns, self._found), 0)
        of_rank: dict[int, _Found] = {}
        incomplete: list[_Found] = []
        for found in self._found:
            rank, age_ns = _rank_of(found), newest_ns - _newest_ns(found)
            if _newest_ns(found) and age_ns > patience_ns:
                self._leave_out(
                    found,
                    f"its newest entry is {age_ns / 60e9:,.0f} minutes older than those of the "
                    "others: it is of an earlier attempt",
                )
            elif rank is None:
                incomplete.append(found)
            elif rank not in of_rank:
                of_rank[rank] = found
            else:
                of_rank[rank] = self._newer(of_rank[rank], found, rank)
        return [*sorted(of_rank.values(), key=lambda one: isinstance(one, Dump)), *incomplete]

    def _newer(self, earlier: _Found, found: _Found, rank: int) -> _Found:
        is_newer = _newest_ns(found) > _newest_ns(earlier)
        older, newer = (earlier, found) if is_newer else (found, earlier)
        self._leave_out(older, f"its name says rank {rank}, as {_name_of(newer)} does")
        return newer

    def _leave_out(self, found: _Found, why: str) -> None:
        self._sink.add_problem(f"{_name_of(found)}: {why}; left out")
        if not isinstance(found, Dump):
            found[1].drop()

    def _place(self, dump: Dump) -> None:
        """Write a dump without a rank, or whose groups were cut off: other dumps describe them."""
        rank = dump.rank
        if rank is None:
            rank = next(r for r in range(len(self._written) + 1) if r not in self._written)
            self._sink.add_guess(f"{dump.name} has no number in its name: shown as rank {rank}")
        if dump.lost_its_groups:
            known = {group for written in self._written.values() for group in written.groups}
            dump.groups = {group.name: group for group in known if rank in group.ranks}
            whose = "they are taken from the other dumps" if dump.groups else "they are unknown"
            self._sink.add_guess(f"{dump.name} does not describe its groups: {whose}")
        self._written[rank] = _write(dump, rank, self._sink)

    def _write_notes(self) -> None:
        newest_ns = max((written.newest_ns for written in self._written.values()), default=0)
        for rank, written in self._written.items():
            columns = {
                "rank": rank,
                "ts_ns": written.newest_ns or newest_ns,
                "kind": "note",
                "text": written.note,
                "args": [written.last],
            }
            self._sink.add_rows("marks", rank, rows("marks", 1, columns))


def _rank_of(found: _Found) -> int | None:
    return found.rank if isinstance(found, Dump) else found[0].rank


def _name_of(found: _Found) -> str:
    return found.name if isinstance(found, Dump) else found[0].name


def _newest_ns(found: _Found) -> int:
    return found.newest_ns if isinstance(found, Dump) else found[0].newest_ns


def _timeout_ns(found: _Found) -> int:
    return found.timeout_ns if isinstance(found, Dump) else found[0].timeout_ns


def _write(dump: Dump, rank: int, sink: Sink) -> _Written:
    """Give the rows of a dump to the sink."""
    times = [entry.created_ns for entry in dump.entries]
    layout = dump.info.layout()
    info = rank_info(
        rank,
        world_size=dump.info.world_size,
        layout=layout,
        started_ns=min(times, default=0),
        ended_ns=max(times, default=0),
    )
    sink.add_rank(info)
    placed = _placed(rank, dump)
    _write_collectives(sink, rank, placed)
    write_last_calls(sink, rank, dump, placed, _names_by_id(dump))
    known = {group.group_id for group in dump.groups.values()}
    used = {g.group_id: g for one in placed if (g := one.group).group_id not in known}
    write_groups(sink, rank, [*dump.groups.values(), *used.values()])
    if times:
        add_imported_clock(sink, rank, min(times))
    layout_text = "" if layout is None else str(layout)
    described = tuple(dump.groups.values())
    note = _note(dump)
    return _Written(dump.name, rank, layout_text, dump.newest_ns, dump.timeout_ns, *note, described)


def _placed(rank: int, dump: Dump) -> list[Placed]:
    """Entries with their groups, also those that only entries name, numbers and peers."""
    others: dict[str, Group] = {}
    numbering = Numbering(dump.entries)
    placed = []
    for entry in dump.entries:
        group = dump.groups.get(entry.group) or others.setdefault(
            entry.group, Group(entry.group, entry.desc, (), "unknown")
        )
        peer = entry.peer_of(group.ranks)
        placed.append(Placed(entry, group, numbering.seq(entry, rank, group, peer), peer))
    return placed


def _write_collectives(sink: Sink, rank: int, placed: Sequence[Placed]) -> None:
    """Rows of `collectives`."""
    for start in range(0, len(placed), _ROWS_AT_ONCE):
        part = placed[start : start + _ROWS_AT_ONCE]
        entries = [one.entry for one in part]
        columns: dict[str, Any] = {
            "rank": rank,
            "source": FORMAT.name,
            "group_id": [one.group.group_id for one in part],
            "seq": [one.seq for one in part],
            "peer": [one.peer for one in part],
            "op": [entry.op for entry in entries],
            "dtype": [entry.dtype for entry in entries],
            "num_bytes": [entry.num_bytes for entry in entries],
            "enqueue_ns": [entry.created_ns for entry in entries],
            "start_ns": [entry.started_ns or entry.created_ns for entry in entries],
            "end_ns": [entry.completed_ns or UNKNOWN for entry in entries],
            "state": [entry.state for entry in entries],
        }
        sink.add_rows("collectives", rank, rows("collectives", len(part), columns))


def _note(dump: Dump) -> tuple[str, str]:
    """About the dump as a whole: a sentence, and the last numbers of each group as JSON."""
    states = Counter(entry.state for entry in dump.entries)
    counts = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    names = _names_by_id(dump)
    last = []
    for pg_id, numbers in sorted(dump.status.items()):
        group = dump.groups.get(names.get(pg_id, ""))
        about = {"pg_id": pg_id, "group": names.get(pg_id)}
        last.append({**about, "group_id": group.group_id if group else None, **numbers})
    open_groups = sum(
        numbers["enqueued"] > numbers["completed"] for numbers in dump.status.values()
    )
    text = (
        f"Flight Recorder {dump.version}: {len(dump.entries)} entries ({counts or 'none'}); "
        f"{open_groups} of {len(dump.status)} groups have collectives that are not completed"
    )
    return text, json.dumps({"entries": len(dump.entries), "last": last})


def _names_by_id(dump: Dump) -> dict[int, str]:
    """Name of the group of each pg_id: from the entries, else by the order of creation.

    Numbers and numbered names grow in the same order; that is used where both are complete and
    every entry agrees, since a dump without entries has nothing else.
    """
    from_entries = {entry.pg_id: entry.group for entry in dump.entries if entry.pg_id >= 0}
    names = list(dump.groups)
    if len(names) != len(dump.status) or not all(name.isdecimal() for name in names):
        return from_entries
    in_order = dict(zip(sorted(dump.status), sorted(names, key=int), strict=True))
    return (
        in_order
        if all(in_order.get(i) == name for i, name in from_entries.items())
        else from_entries
    )
