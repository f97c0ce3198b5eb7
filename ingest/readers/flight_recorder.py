"""PyTorch Flight Recorder dumps 2.x: pickle or JSON, one file per rank, named by the rank.

Format: https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/FlightRecorder.hpp
A dump tells which collectives and messages a rank had enqueued last. Its *_discovered_* times are
when a watchdog looked, not when anything ran; where that never happened they are 0 or null.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import msgspec

from ingest.readers import Sink
from ingest.readers.flight_entries import Entry, Numbering, entries_of
from ingest.readers.inputs import Source
from ingest.readers.json_events import EventStream, tolerant_json
from ingest.readers.kineto_groups import DistributedInfo, Group
from ingest.readers.plain_pickle import CutShort, NotPlain, loads
from ingest.readers.rows import rank_info, rows
from ingest.readers.shelf import Shelf
from ingest.readers.whole import TooLarge, add_imported_clock, all_of, rank_of_name
from trace_hooks.schema import UNKNOWN

NAME = "flight_recorder"

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_WORDS = (b"pg_config", b"collective_seq_id", b"comm_lib_version", b"nccl_version", b"pg_status")
_RANK_AT_END = re.compile(r"(\d{1,9})(?:\.(?:json|pkl|pickle|pt|bin|txt|gz))*$")
_STATUS = ("enqueued", "started", "completed")
_ROWS_AT_ONCE = 1 << 18


def recognises(source: Source) -> bool:
    """Whether it is a dump, in either encoding."""
    head = source.head
    if not _PICKLE.match(head) and head.lstrip()[:1] != b"{":
        return False
    return b"entries" in head and sum(word in head for word in _WORDS) >= 2


@dataclass
class _Dump:
    """One file, read."""

    name: str
    version: str
    info: DistributedInfo
    groups: dict[str, Group]
    entries: list[Entry]
    status: dict[int, dict[str, int]]
    """pg_id -> last collective enqueued, started, completed; -1 none"""
    rank: int | None


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
    """what it says as a whole"""
    last: str
    """the last numbers of each group, JSON"""


_Found = tuple[_Written, Shelf] | _Dump


def read(source: Source, shelf: Shelf) -> _Found | None:
    """Read one dump, and put its rows on a shelf of their own unless it tells no rank."""
    told = _pickled(source) if _PICKLE.match(source.head) else _in_json(source)
    for problem in (*source.damages(), *told.problems):
        shelf.add_problem(f"{source.name}: {problem}")
    if told.header is None:
        return None
    version = str(told.header.get("version", ""))
    if not version.startswith("2."):
        shelf.add_problem(
            f"{source.name}: is a dump of version {version[:20]!r}; versions 2.x are read"
        )
        return None
    dump = _dump(source.name, version, told)
    bad = len(told.entries) - len(dump.entries)
    if bad:
        shelf.add_problem(f"{source.name}: {bad:,} damaged entries left out")
    if dump.rank is None:
        return dump
    rows_of_dump = shelf.another()
    return _write(dump, dump.rank, rows_of_dump), rows_of_dump


class Reading:
    """One import: the dumps of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._written: dict[int, _Written] = {}
        self._waiting: list[_Dump] = []

    def take(self, found: _Found) -> None:
        """One dump."""
        if isinstance(found, _Dump):
            self._waiting.append(found)
            return
        written, rows_of_dump = found
        name, rank = written.name, written.rank
        if rank in self._written:
            earlier = self._written[rank].name
            self._sink.add_problem(
                f"{name}: its name says rank {rank}, as {earlier} does; left out"
            )
            rows_of_dump.drop()
            return
        rows_of_dump.give_to(self._sink)
        self._written[rank] = written

    def finish(self) -> None:
        """Place the dumps without a rank, then write what each rank had enqueued last."""
        if self._written:
            self._sink.add_guess("the ranks are taken from the file names: dumps tell none")
        for dump in self._waiting:
            rank = next(r for r in range(len(self._written) + 1) if r not in self._written)
            self._sink.add_guess(f"{dump.name} has no number in its name: shown as rank {rank}")
            self._written[rank] = _write(dump, rank, self._sink)
        layouts = {written.layout for written in self._written.values()}
        if layouts == {""} and len(self._written) > 1:
            self._sink.add_guess(
                "the parallel layout is unknown: the groups' descriptions do not spell it out"
            )
        newest_ns = max((written.newest_ns for written in self._written.values()), default=0)
        for rank, written in self._written.items():
            columns = {
                "rank": rank, "ts_ns": written.newest_ns or newest_ns, "kind": "note",
                "text": written.note, "args": [written.last],
            }  # fmt: skip
            self._sink.add_rows("marks", rank, rows("marks", 1, columns))


def _write(dump: _Dump, rank: int, sink: Sink) -> _Written:
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
    _write_groups(sink, rank, [*dump.groups.values(), *used])
    if times:
        add_imported_clock(sink, rank, min(times))
    told = "" if layout is None else str(layout)
    return _Written(dump.name, rank, told, max(times, default=0), *_note(dump))


@dataclass
class _Told:
    """What a file holds, before anything in it is believed."""

    header: Mapping[str, Any] | None
    entries: list[Any]
    problems: list[str]


def _pickled(source: Source) -> _Told:
    problems: list[str] = []
    try:
        data: Any = loads(all_of(source))
    except TooLarge as error:
        return _Told(None, [], [str(error)])
    except NotPlain as error:
        refusal = f"{error}, which a dump of plain data never does; refused, nothing of it was run"
        return _Told(None, [], [refusal])
    except CutShort as error:
        data = error.value
        problems = [str(error)]
    if not isinstance(data, dict) or "version" not in data:
        return _Told(None, [], [*problems, "holds no dump"])
    entries = data.get("entries")
    return _Told(data, entries if isinstance(entries, list) else [], problems)


def _in_json(source: Source) -> _Told:
    stream = EventStream(source.read, _many, _one, list_name="entries")
    entries: list[Any] = []
    for batch in stream:
        entries += batch
    header: dict[str, Any] = {}
    for key, text in stream.header.items():
        try:
            header[key] = tolerant_json(text)
        except ValueError:
            stream.problems.append(f"its {key} is damaged")
    if "version" not in header:
        return _Told(None, [], stream.problems or ["holds no dump"])
    return _Told(header, entries, stream.problems)


def _many(text: bytes) -> list[Any]:
    try:
        return list(msgspec.json.decode(text, type=list[dict[str, Any]]))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _one(text: bytes) -> Any:
    try:
        found = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _dump(name: str, version: str, told: _Told) -> _Dump:
    header = told.header or {}
    entries = entries_of(told.entries)
    entries.sort(key=lambda entry: entry.record_id)
    config = _config(header.get("pg_config"), entries)
    world = {tuple(c["ranks"]) for c in config if c["pg_desc"] == "default_pg" or len(config) == 1}
    described = {
        "world_size": len(world.pop()) or None if len(world) == 1 else None,
        "pg_config": config,
    }
    info = DistributedInfo(described)
    groups = {group.name: group for group in info.described()}
    status = dict(_status_of(header.get("pg_status")))
    return _Dump(name, version, info, groups, entries, status, _rank_of(name))


def _rank_of(name: str) -> int | None:
    """The number that ends the name, behind which only endings stand: hosts have numbers, too."""
    match = _RANK_AT_END.search(PurePath(name).name)
    return int(match[1]) if match else rank_of_name(name)


def _config(told: object, entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Groups as DistributedInfo wants them; gloo's one group without a name gets its entries'."""
    known = told if isinstance(told, dict) else {}
    names = {(entry.group, entry.desc) for entry in entries}
    config = []
    for name, group in known.items():
        if not isinstance(group, dict):
            continue
        desc = group.get("desc", "")
        if name == "" and len(known) == 1 and len(names) == 1:
            name, desc = next(iter(names))
        config.append({"pg_name": str(name), "pg_desc": str(desc), "ranks": _listed(group)})
    return config


def _listed(group: Mapping[str, Any]) -> list[Any]:
    ranks = group.get("ranks")
    if isinstance(ranks, str):
        try:
            ranks = json.loads(ranks)
        except (ValueError, RecursionError):
            return []
    fits = isinstance(ranks, list) and all(type(rank) is int for rank in ranks)
    return list(ranks) if fits and ranks else []


def _status_of(told: object) -> Iterator[tuple[int, dict[str, int]]]:
    for pg_id, numbers in (told if isinstance(told, dict) else {}).items():
        if not isinstance(numbers, dict) or not str(pg_id).isdecimal():
            continue
        yield (
            int(str(pg_id)[:9]),
            {word: _number(numbers.get(f"last_{word}_collective")) for word in _STATUS},
        )


def _number(value: object) -> int:
    """A sequence number from a number or its text; -1 for none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**62 else UNKNOWN


def _write_collectives(sink: Sink, rank: int, dump: _Dump) -> list[Group]:
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
        "group_id": [group.group_id for group in groups], "seq": seqs, "peer": peers,
        "op": [entry.op for entry in dump.entries],
        "dtype": [entry.dtype for entry in dump.entries],
        "num_bytes": [entry.num_bytes for entry in dump.entries],
        "enqueue_ns": [entry.created_ns for entry in dump.entries],
        "start_ns": [entry.started_ns or entry.created_ns for entry in dump.entries],
        "end_ns": [entry.completed_ns or UNKNOWN for entry in dump.entries],
        "state": [entry.state for entry in dump.entries],
    }  # fmt: skip
    for start in range(0, len(dump.entries), _ROWS_AT_ONCE):
        part = {name: values[start : start + _ROWS_AT_ONCE] for name, values in table.items()}
        columns = {"rank": rank, "source": NAME, **part}
        sink.add_rows("collectives", rank, rows("collectives", len(part["seq"]), columns))
    return list(others.values())


def _write_groups(sink: Sink, rank: int, groups: list[Group]) -> None:
    columns = {
        "rank": rank,
        "group_id": [group.group_id for group in groups],
        "name": [group.name for group in groups],
        "desc": [group.desc for group in groups],
        "axis": [group.axis for group in groups],
        "ranks": [list(group.ranks) for group in groups],
    }
    if groups:
        sink.add_rows("groups", rank, rows("groups", len(groups), columns))


def _note(dump: _Dump) -> tuple[str, str]:
    """What the dump says as a whole: a sentence, and the last numbers of each group as JSON."""
    states = Counter(entry.state for entry in dump.entries)
    said = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
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
        f"Flight Recorder {dump.version}: {len(dump.entries)} entries ({said or 'none'}); "
        f"{open_groups} of {len(dump.status)} groups have collectives that are not completed"
    )
    return text, json.dumps({"entries": len(dump.entries), "last": last})


def _names_by_id(dump: _Dump) -> dict[int, str]:
    """Name of the group of each pg_id: told by the entries, else by the order of creation.

    Numbers and numbered names grow alike; that is used where both are complete and every entry
    agrees, since a dump without entries tells no other way.
    """
    told = {entry.pg_id: entry.group for entry in dump.entries if entry.pg_id >= 0}
    names = list(dump.groups)
    if len(names) != len(dump.status) or not all(name.isdecimal() for name in names):
        return told
    in_order = dict(zip(sorted(dump.status), sorted(names, key=int), strict=True))
    return in_order if all(in_order.get(i) == name for i, name in told.items()) else told
