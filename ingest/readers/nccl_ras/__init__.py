"""NCCL's RAS: polls of a running job (`ncclras -f json`) and events of its monitor.

Each poll is a look at every rank: how many collectives it has launched, or that it does not answer.
One poll says who is dead; who is behind only follows from two that are equal (standstill.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingest.readers.base import Format, Sink
from ingest.readers.nccl_ras.polls import Communicator, Content, Event, Poll, Process, content_of
from ingest.readers.nccl_ras.ranks import ranks_of
from ingest.readers.nccl_ras.standstill import launches_of, stands_of, still_since
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import TooLarge, add_imported_clock, all_of
from trace_hooks.schema import UNKNOWN

FORMAT = Format("nccl_ras", "NCCL RAS", accompanies=True)

_OF_POLLS = (b'"communicators_count"', b'"missing_ranks_count"')
_OF_EVENTS = (b'"event"', b'"group"', b'"peer"', b'"details"')
_OF_TEXT = (b"Job summary", b"Communicators...")
_STATES = {"PEER_DEAD": "gone", "PEER_UNRESPONSIVE": "silent"}
_MOST_POLLS = 1000
_MOST_LOOKS = 8
"""Of each rank, the newest."""


def recognises(source: Source) -> bool:
    """Whether it is what ncclras prints, as JSON or as text."""
    head = source.head
    return (
        any(word in head for word in _OF_POLLS)
        or all(word in head for word in _OF_EVENTS)
        or _is_text(head)
    )


def _is_text(head: bytes) -> bool:
    return all(word in head for word in _OF_TEXT) and b"{" not in head[:64]


def read(source: Source, staged: StagedRows) -> Content | None:
    """Read one file."""
    if _is_text(source.head):
        staged.add_problem(
            f"{source.name}: is a status of NCCL's RAS as text, which leaves out most ranks; "
            "`ncclras -f json` (NCCL 2.28.7 or later) prints one that can be read"
        )
        return None
    try:
        content = content_of(source.name, all_of(source).decode("utf-8", "replace"))
    except TooLarge as error:
        staged.add_problem(f"{source.name}: {error}")
        return None
    problems = list(source.damages())
    if content.is_cut:
        problems.append("a poll in it is cut off or damaged, and left out")
    if content.num_bad:
        problems.append(f"{content.num_bad:,} communicators or events without sound values")
    for problem in problems:
        staged.add_problem(f"{source.name}: {problem}")
    return content if content.polls or content.events else None


class Import:
    """One import: polls of one job, in any number of files."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._polls: list[Poll] = []
        self._events: list[Event] = []

    def add_file(self, content: Content) -> None:
        """One file."""
        self._polls += content.polls
        self._events += content.events

    def finish(self) -> None:
        """Write what the polls saw of each rank, and who waits where the job stands still."""
        polls = sorted(self._polls, key=lambda poll: poll.ts_ns)[-_MOST_POLLS:]
        ranks, how = ranks_of(polls, self._sink.ranks_by_pid() or {})
        if not ranks:
            self._sink.add_problem("no poll of NCCL's RAS holds a communicator: nothing to show")
            return
        self._sink.add_guess(f"polls of NCCL's RAS name no global ranks: {how}")
        self._sink.add_guess("times of NCCL's RAS name no time zone and are taken as UTC")
        last = polls[-1]
        self._write_ranks(ranks, polls)
        self._write_groups(last, ranks)
        self._write_looks(polls, ranks)
        since = still_since(polls)
        found = {one.name: stands_of(one, since, last.ts_ns) for one in last.communicators.values()}
        for process, rank in ranks.items():
            self._write_entered(process, rank, found, since, last.ts_ns)
        self._note_what_is_open(polls, found, since)

    def _write_ranks(self, ranks: Mapping[Process, int], polls: Sequence[Poll]) -> None:
        size = max(len(ranks), *(one.size for poll in polls for one in poll.communicators.values()))
        for process, rank in ranks.items():
            info = rank_info(
                rank,
                world_size=size,
                host=process.host,
                pid=process.pid,
                device=f"cuda:{process.device}" if process.device >= 0 else "",
                started_ns=polls[0].ts_ns,
                ended_ns=polls[-1].ts_ns,
            )
            self._sink.add_rank(info)
            add_imported_clock(self._sink, rank, polls[0].ts_ns)

    def _write_groups(self, poll: Poll, ranks: Mapping[Process, int]) -> None:
        described: list[tuple[Communicator, list[int]]] = []
        for one in poll.communicators.values():
            members = [one.members.get(at) for at in range(one.size)]
            known = [ranks[member.process] for member in members if member is not None]
            described.append((one, known if len(known) == one.size else []))
        if not described:
            return
        writer = min(ranks.values())
        columns = {
            "rank": writer,
            "group_id": [_group_id(one.name) for one, _ in described],
            "name": [one.name.partition(":")[0] for one, _ in described],
            "desc": "",
            "axis": [
                "world" if len(known) == len(ranks) > 1 else "unknown" for _, known in described
            ],
            "ranks": [known for _, known in described],
        }
        self._sink.add_rows("groups", writer, rows("groups", len(described), columns))

    def _write_looks(self, polls: Sequence[Poll], ranks: Mapping[Process, int]) -> None:
        seen: dict[Process, list[dict[str, Any]]] = {process: [] for process in ranks}
        for at, poll in list(enumerate(polls))[-_MOST_LOOKS:]:
            since = still_since(polls[: at + 1])
            launches = launches_of(poll)
            states = _states_of(poll)
            for process in ranks.keys() & (launches.keys() | states.keys()):
                own = launches.get(process)
                seen[process].append(
                    {
                        "ts_ns": poll.ts_ns,
                        "process": states.get(process, ""),
                        "quiet_ns": poll.ts_ns - since.get(process, poll.ts_ns),
                        "num_entered": UNKNOWN if own is None else sum(own.values()),
                    }
                )
        for event in sorted(self._events, key=lambda one: one.ts_ns):
            for process in _meant_by(event, ranks):
                seen[process] += _look_of(event, seen[process])
        for process, looks in seen.items():
            if looks:
                columns = {name: [look[name] for look in looks] for name in looks[0]}
                shared = {"rank": ranks[process], "pid": process.pid, "source": FORMAT.name}
                table = rows("looks", len(looks), shared | columns)
                self._sink.add_rows("looks", ranks[process], table)

    def _write_entered(
        self,
        process: Process,
        rank: int,
        found: Mapping[str, Sequence[Any]],
        since: Mapping[Process, int],
        at_ns: int,
    ) -> None:
        own = [
            (name, stand)
            for name, stands in found.items()
            for stand in stands
            if stand.process == process
        ]
        if not own:
            return
        columns = {
            "rank": rank,
            "ts_ns": at_ns,
            "source": FORMAT.name,
            "group_id": [_group_id(name) for name, _ in own],
            "seq": [stand.seq for _, stand in own],
            "op": [stand.op for _, stand in own],
            "enqueue_ns": since.get(process, at_ns),
            "state": ["entered" if stand.waits else "unknown" for _, stand in own],
        }
        self._sink.add_rows("entered", rank, rows("entered", len(own), columns))

    def _note_what_is_open(
        self,
        polls: Sequence[Poll],
        found: Mapping[str, Sequence[Any]],
        since: Mapping[Process, int],
    ) -> None:
        """What cannot be said of these polls, and what to do about it."""
        last_ns = polls[-1].ts_ns
        if len(polls) == 1:
            self._sink.add_guess(
                "one poll of NCCL's RAS does not say who is behind: import several, taken at "
                "least 10 seconds apart"
            )
        elif not any(found.values()) and since:
            still_s = (last_ns - max(since.values())) / 1e9
            if still_s > 0:
                self._sink.add_guess(
                    f"no rank launched a collective in the last {still_s:,.0f} s, and all of a "
                    "communicator have launched as many: NCCL's RAS does not count completions, so "
                    "that they may all be in one, or do something else"
                )


def _states_of(poll: Poll) -> dict[Process, str]:
    """Processes that do not answer: 'silent' or 'gone'."""
    found: dict[Process, str] = {}
    for communicator in poll.communicators.values():
        for member in communicator.members.values():
            if member.state and found.get(member.process) != "gone":
                found[member.process] = member.state
    return found


def _meant_by(event: Event, ranks: Mapping[Process, int]) -> Iterator[Process]:
    """Processes whose address and number an event names."""
    if event.kind not in _STATES:
        return
    for process in ranks:
        words = event.about.replace(":", " ").replace(",", " ").split()
        if process.host and process.host in event.about and str(process.pid) in words:
            yield process


def _look_of(event: Event, looks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A look, unless the process answered later."""
    if any(look["ts_ns"] > event.ts_ns and not look["process"] for look in looks):
        return []
    known = {"quiet_ns": UNKNOWN, "num_entered": UNKNOWN}
    return [{"ts_ns": event.ts_ns, "process": _STATES[event.kind], **known}]


def _group_id(name: str) -> int:
    digest = hashlib.sha256(f"nccl_ras|{name}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1
