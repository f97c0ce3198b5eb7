"""PyTorch Flight Recorder dumps 2.x: pickle or JSON, one file per rank, named by the rank.

Format: https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/FlightRecorder.hpp
A dump holds which collectives and messages a rank had enqueued last. Its *_discovered_* times are
when a watchdog looked, not when anything ran; where that never happened they are 0 or null.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ingest.readers.base import Format, Sink
from ingest.readers.flight_recorder.dump import PICKLE, Dump, read_dump
from ingest.readers.flight_recorder.entries import Numbering
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.process_groups import Group, write_groups
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock
from trace_hooks.schema import UNKNOWN

FORMAT = Format(
    "flight_recorder", "PyTorch Flight Recorder", is_previewable=True, has_own_clocks=True
)

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
    """One import: the dumps of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._written: dict[int, _Written] = {}
        self._waiting: list[Dump] = []

    def add_file(self, dump: _Found) -> None:
        """One dump."""
        if isinstance(dump, Dump):
            self._waiting.append(dump)
            return
        written, rows_of_dump = dump
        if self._is_new(written.name, written.rank):
            rows_of_dump.give_to(self._sink)
            self._written[written.rank] = written
        else:
            rows_of_dump.drop()

    def _is_new(self, name: str, rank: int) -> bool:
        """Whether no earlier dump is of this rank; adds a problem where one is."""
        earlier = self._written.get(rank)
        if earlier is not None:
            self._sink.add_problem(
                f"{name}: its name says rank {rank}, as {earlier.name} does; left out"
            )
        return earlier is None

    def _place(self, dump: Dump) -> None:
        """Write a dump without a rank, or whose groups were cut off: other dumps describe them."""
        rank = dump.rank
        if rank is None:
            rank = next(r for r in range(len(self._written) + 1) if r not in self._written)
            self._sink.add_guess(f"{dump.name} has no number in its name: shown as rank {rank}")
        elif not self._is_new(dump.name, rank):
            return
        if dump.lost_its_groups:
            known = {group for written in self._written.values() for group in written.groups}
            dump.groups = {group.name: group for group in known if rank in group.ranks}
            whose = "they are taken from the other dumps" if dump.groups else "they are unknown"
            self._sink.add_guess(f"{dump.name} does not describe its groups: {whose}")
        self._written[rank] = _write(dump, rank, self._sink)

    def finish(self) -> None:
        """Give the dumps without a rank one, then write what each rank had enqueued last."""
        if self._written or any(dump.rank is not None for dump in self._waiting):
            self._sink.add_guess(
                "the ranks are taken from the file names: dumps do not contain them"
            )
        for dump in sorted(self._waiting, key=lambda one: one.rank is None):
            self._place(dump)
        layouts = {written.layout for written in self._written.values()}
        if layouts == {""} and len(self._written) > 1:
            self._sink.add_guess(
                "the parallel layout is unknown, because the groups' descriptions do not spell it "
                "out; `rankscope layout` can set it"
            )
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
    used = _write_collectives(sink, rank, dump)
    write_groups(sink, rank, [*dump.groups.values(), *used])
    if times:
        add_imported_clock(sink, rank, min(times))
    layout_text = "" if layout is None else str(layout)
    described = tuple(dump.groups.values())
    return _Written(dump.name, rank, layout_text, max(times, default=0), *_note(dump), described)


def _write_collectives(sink: Sink, rank: int, dump: Dump) -> list[Group]:
    """Rows of `collectives`; returns groups that only the entries name."""
    others: dict[str, Group] = {}
    numbering = Numbering(dump.entries)
    groups: list[Group] = []
    peers: list[int] = []
    seqs: list[int] = []
    for entry in dump.entries:
        group = dump.groups.get(entry.group) or others.setdefault(
            entry.group, Group(entry.group, entry.desc, (), "unknown")
        )
        peer = entry.peer_of(group.ranks)
        groups.append(group)
        peers.append(peer)
        seqs.append(numbering.seq(entry, rank, group, peer))
    table: dict[str, list[Any]] = {
        "group_id": [group.group_id for group in groups],
        "seq": seqs,
        "peer": peers,
        "op": [entry.op for entry in dump.entries],
        "dtype": [entry.dtype for entry in dump.entries],
        "num_bytes": [entry.num_bytes for entry in dump.entries],
        "enqueue_ns": [entry.created_ns for entry in dump.entries],
        "start_ns": [entry.started_ns or entry.created_ns for entry in dump.entries],
        "end_ns": [entry.completed_ns or UNKNOWN for entry in dump.entries],
        "state": [entry.state for entry in dump.entries],
    }
    for start in range(0, len(dump.entries), _ROWS_AT_ONCE):
        part = {name: values[start : start + _ROWS_AT_ONCE] for name, values in table.items()}
        columns = {"rank": rank, "source": FORMAT.name, **part}
        sink.add_rows("collectives", rank, rows("collectives", len(part["seq"]), columns))
    return list(others.values())


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
