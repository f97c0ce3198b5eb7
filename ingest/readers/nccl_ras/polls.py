"""What files of NCCL's RAS hold: polls (`ncclras -f json`) and events of its monitor.

Format: https://github.com/NVIDIA/nccl (src/ras/client_support.cc). A file may hold several polls,
one after the other. NCCL 2.28 leaves out a comma in front of the status of a missing rank.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ingest.limits import limits
from ingest.readers.parsing.trace_events import MAX_COUNT, MAX_NS
from trace_hooks.schema import UNKNOWN

_COMMA_LEFT_OUT = re.compile(r'(\d)(\s+"status"\s*:)')
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f")
_LONGEST = 256
_MOST_FAILED = 100
"""After so many places at which no object can be read, nothing more of a file is."""


class Process(NamedTuple):
    """Who is a rank of communicators: a GPU of a process."""

    host: str
    pid: int
    device: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True)
class Member:
    """A rank of a communicator. `counts`: launches by NCCL's name of the operation; empty of one
    that did not answer. `state`: '' answers, 'silent' or 'gone'; `is_leaving`: it is destroying it.
    """

    process: Process
    counts: Mapping[str, int]
    state: str = ""
    is_leaving: bool = False

    @property
    def total(self) -> int:
        """All launches."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Communicator:
    """`members` by rank in it; `size`: ranks that it has, known or not."""

    name: str
    size: int
    members: Mapping[int, Member]


@dataclass(frozen=True)
class Poll:
    """One status. `ts_ns`: Unix ns, if its time is that of UTC."""

    ts_ns: int
    communicators: Mapping[str, Communicator]


@dataclass(frozen=True)
class Event:
    """One line of the monitor; `about` names the peer in words or by address."""

    ts_ns: int
    kind: str
    about: str


@dataclass
class Content:
    """All of one file."""

    name: str
    polls: list[Poll] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    num_bad: int = 0
    is_cut: bool = False


def content_of(name: str, text: str) -> Content:
    """What a file holds; what is damaged is counted."""
    content = Content(name)
    for value in _values(_COMMA_LEFT_OUT.sub(r"\1,\2", text), content):
        ts_ns = _time_ns(value.get("timestamp"))
        if ts_ns is None:
            content.num_bad += 1
        elif isinstance(value.get("communicators"), list):
            found = map(_communicator, value["communicators"])
            kept = {one.name: one for one in found if one is not None}
            content.num_bad += len(value["communicators"]) - len(kept)
            content.polls.append(Poll(ts_ns, kept))
        elif isinstance(value.get("event"), str):
            about = f"{value.get('peer', '')} {value.get('details', '')}"
            content.events.append(Event(ts_ns, value["event"][:_LONGEST], about[:1024]))
        else:
            content.num_bad += 1
    return content


def _values(text: str, content: Content) -> Iterator[dict[str, Any]]:
    """Objects, whatever stands between them: answers of the server to commands, above all."""
    decoder = json.JSONDecoder(strict=False)
    at, num_failed = text.find("{"), 0
    while at >= 0 and num_failed < _MOST_FAILED:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            content.is_cut, num_failed = True, num_failed + 1
            at = _next_object(text, at)
            continue
        if isinstance(value, dict):
            yield value
        at = text.find("{", end)


def _next_object(text: str, at: int) -> int:
    """Where the next line begins with an object; -1 nowhere."""
    found = text.find("\n{", at)
    return found + 1 if found >= 0 else -1


def _communicator(value: object) -> Communicator | None:
    if not isinstance(value, dict) or not isinstance(value.get("hash"), str):
        return None
    size = _count(value.get("size"))
    if not 0 < size <= limits().max_ranks:
        return None
    members = {}
    for key in ("ranks", "missing_ranks"):
        listed = value.get(key)
        for one in listed if isinstance(listed, list) else ():
            member = _member(one, is_missing=key == "missing_ranks")
            rank = _count(one.get("rank")) if isinstance(one, dict) else UNKNOWN
            if member is not None and 0 <= rank < size:
                members[rank] = member
    second = value.get("secondary_hash")
    name = f"{value['hash'][:64]}:{second[:128]}" if isinstance(second, str) else value["hash"][:64]
    return Communicator(name, size, members)


def _member(value: object, is_missing: bool) -> Member | None:
    if not isinstance(value, dict):
        return None
    host, pid, device = value.get("host"), _count(value.get("pid")), _count(value.get("cuda_dev"))
    process = Process(host[:_LONGEST] if isinstance(host, str) else "", pid, device)
    status = value.get("status") if isinstance(value.get("status"), dict) else {}
    assert isinstance(status, dict)
    if is_missing:
        is_dead = status.get("considered_dead") is True
        is_silent = status.get("unresponsive") is True
        return Member(process, {}, "gone" if is_dead else "silent" if is_silent else "")
    counts = value.get("collective_counts")
    launches = {
        str(name)[:64]: number
        for name, count in (counts.items() if isinstance(counts, dict) else ())
        if (number := _count(count)) >= 0
    }
    flags = ("finalize_called", "destroy_flag", "abort_flag")
    return Member(process, launches, "", any(status.get(flag) is True for flag in flags))


def _time_ns(value: object) -> int | None:
    """Unix ns of a local time without a zone, taken as UTC, or of a number of seconds."""
    if type(value) in (int, float):
        seconds = value
        ts_ns = int(seconds * 1e9) if 0 < seconds < MAX_NS / 1e9 else 0  # type: ignore[operator]
        return ts_ns or None
    for form in _TIMES if isinstance(value, str) else ():
        try:
            time = datetime.strptime(str(value)[:26].removesuffix("Z"), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        ts_ns = int(time.timestamp()) * 10**9 + time.microsecond * 1000
        return ts_ns if 0 < ts_ns < MAX_NS else None
    return None


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < MAX_COUNT else UNKNOWN
