"""What one Flight Recorder dump holds, checked before anything in it is believed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ingest.readers.base import Sink
from ingest.readers.flight_recorder.entries import Entry, count_of, entries_of
from ingest.readers.parsing.json_events import (
    EventStream,
    decode_objects,
    tolerant_json,
    tolerant_object,
)
from ingest.readers.parsing.plain_pickle import CutShort, NotPlain, loads
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_NS
from ingest.readers.tables.process_groups import DistributedInfo, Group
from ingest.readers.tables.whole_files import TooLarge, all_of, possible_rank, rank_of_name
from trace_hooks.schema import UNKNOWN

PICKLE = re.compile(rb"\x80[\x02-\x05]")
STATUS = ("enqueued", "started", "completed")
_RANK_AT_END = re.compile(r"(\d{1,9})(?:\.(?:json|pkl|pickle|pt|bin|txt|gz))*$")
_CUT_OFF = "2.x"
"""Version of a dump in JSON whose end, which has its version, is lost."""


@dataclass
class Dump:
    """One file, read."""

    name: str
    version: str
    info: DistributedInfo
    groups: dict[str, Group]
    entries: list[Entry]
    status: dict[int, dict[str, int]]
    """pg_id -> last collective enqueued, started, completed; -1 none"""
    rank: int | None
    frames: dict[int, Any]
    """record_id -> frames of the call, innermost first, not checked; none in JSON"""
    is_part: bool
    """entries are missing: it was cut off or damaged"""
    timeout_ns: int
    """the longest of its entries; 0 unknown"""

    @property
    def newest_ns(self) -> int:
        """When the last entry was made; 0 without entries."""
        return max((entry.created_ns for entry in self.entries), default=0)

    @property
    def lost_its_groups(self) -> bool:
        """Whether entries name groups, of which it describes none: that part was cut off."""
        return not self.groups and any(entry.group for entry in self.entries)


def read_dump(source: Source, sink: Sink) -> Dump | None:
    """The dump in a file; None for anything but version 2. Damage goes to the sink."""
    content = _pickled(source) if PICKLE.match(source.head) else _in_json(source)
    for problem in (*source.damages(), *content.problems):
        sink.add_problem(f"{source.name}: {problem}")
    if content.header is None:
        return None
    version = str(content.header.get("version", _CUT_OFF))
    if not version.startswith("2."):
        sink.add_problem(
            f"{source.name}: is a dump of version {version[:20]!r}; versions 2.x are read"
        )
        return None
    dump = _dump(source.name, version, content)
    bad = len(content.entries) - len(dump.entries)
    dump.is_part = bool(bad or content.problems or source.damages())
    if bad:
        sink.add_problem(f"{source.name}: {bad:,} damaged entries left out")
    return dump


@dataclass
class _FileContent:
    """What a file holds, before anything in it is believed."""

    header: Mapping[str, Any] | None
    entries: list[Any]
    problems: list[str]


def _pickled(source: Source) -> _FileContent:
    problems: list[str] = []
    try:
        data: Any = loads(all_of(source))
    except TooLarge as error:
        return _FileContent(None, [], [str(error)])
    except NotPlain as error:
        refusal = f"{error}, which a genuine dump never does; refused, and nothing in it was run"
        return _FileContent(None, [], [refusal])
    except CutShort as error:
        data = error.value
        problems = [str(error)]
    if not isinstance(data, dict) or "version" not in data:
        return _FileContent(None, [], [*problems, "holds no dump"])
    entries = data.get("entries")
    return _FileContent(data, entries if isinstance(entries, list) else [], problems)


def _in_json(source: Source) -> _FileContent:
    stream = EventStream(source.read, decode_objects, tolerant_object, list_name="entries")
    entries: list[Any] = []
    for batch in stream:
        entries += batch
    header: dict[str, Any] = {}
    for key, text in stream.header.items():
        try:
            header[key] = tolerant_json(text)
        except ValueError:
            stream.problems.append(f"its {key} is damaged")
    if "version" not in header and not (stream.is_cut and entries):
        return _FileContent(None, [], stream.problems or ["holds no dump"])
    return _FileContent(header, entries, stream.problems)


def _dump(name: str, version: str, content: _FileContent) -> Dump:
    header = content.header or {}
    entries = entries_of(content.entries)
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
    records = [one for one in content.entries if isinstance(one, dict)]
    frames = {one["record_id"]: one["frames"] for one in records if _has_frames(one)}
    timeout_ms = max((count_of(one.get("timeout_ms")) for one in records), default=0)
    timeout_ns = min(max(timeout_ms, 0) * 10**6, MAX_NS)
    return Dump(
        name, version, info, groups, entries, status, _rank_of(name), frames, False, timeout_ns
    )


def _has_frames(record: Mapping[str, Any]) -> bool:
    return type(record.get("record_id")) is int and bool(record.get("frames"))


def _rank_of(name: str) -> int | None:
    """The number that ends the name, behind which only endings stand: hosts have numbers, too."""
    match = _RANK_AT_END.search(PurePath(name).name)
    return possible_rank(match[1]) if match else rank_of_name(name)


def _config(value: object, entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Groups as DistributedInfo wants them; gloo's one group without a name gets its entries'."""
    known = value if isinstance(value, dict) else {}
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


def _status_of(status: object) -> Iterator[tuple[int, dict[str, int]]]:
    for pg_id, numbers in (status if isinstance(status, dict) else {}).items():
        if not isinstance(numbers, dict) or not str(pg_id).isdecimal():
            continue
        yield (
            int(str(pg_id)[:9]),
            {word: _number(numbers.get(f"last_{word}_collective")) for word in STATUS},
        )


def _number(value: object) -> int:
    """A sequence number from a number or its text; -1 for none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**62 else UNKNOWN
