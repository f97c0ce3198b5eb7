"""Logs of NCCL's Inspector plugin: JSON lines, one file per process, one line per collective.

Format: https://github.com/NVIDIA/nccl (ext-profiler/inspector, version 4.0). Of each communicator
the plugin writes the collective that was over last in every interval: numbers have gaps. A line
names the rank inside its communicator, not the global one.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ingest.limits import limits, variable
from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.parsing.json_lines import JsonLines, Line, first_objects
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_COUNT, MAX_NS
from ingest.readers.tables.finished_collectives import (
    Communicator,
    Done,
    Members,
    write_collectives,
)
from ingest.readers.tables.rows import rank_info
from ingest.readers.tables.span_list import SpanList
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.torch_names import op_name
from ingest.readers.tables.whole_files import add_imported_clock
from trace_hooks.schema import UNKNOWN

FORMAT = Format("nccl_inspector", "NCCL Inspector", has_own_clocks=True)


def recognises(source: Source) -> bool:
    """Whether its lines are collectives as the Inspector writes them."""
    return any(
        isinstance(line.get("header"), dict) and isinstance(line.get("coll_perf"), dict)
        for line in first_objects(source.head)
    )


@dataclass(frozen=True)
class _Call:
    """One collective of one rank of a communicator."""

    comm: str
    rank_in_comm: int
    num_ranks: int
    op: str
    seq: int
    num_bytes: int
    enqueue_ns: int
    start_ns: int
    end_ns: int


@dataclass
class _Log:
    """One file, read."""

    name: str
    calls: list[_Call] = field(default_factory=list)
    host: str = ""
    pid: int = UNKNOWN
    num_of_dump: int = 0
    """calls without times of their own"""


def read(source: Source, staged: StagedRows) -> _Log | None:
    """Read one log."""
    lines = JsonLines(source.read)
    log = _Log(source.name)
    num_others = 0
    for line in lines:
        if not isinstance(line.get("coll_perf"), dict):
            num_others += 1
        elif not _take(log, line):
            lines.refuse()
    problems = [*source.damages(), *lines.problems]
    if num_others:
        problems.append(f"{num_others:,} lines left out because they are not collectives")
    if not log.calls:
        problems.append("no collective could be read")
    for problem in problems:
        staged.add_problem(f"{source.name}: {problem}")
    return log if log.calls else None


class Import:
    """One import: the logs of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._logs: list[_Log] = []

    def add_file(self, log: _Log) -> None:
        """One log."""
        self._logs.append(log)

    def finish(self) -> None:
        """Find out which rank each log is, and write it."""
        if not self._logs:
            return
        world = max((call for log in self._logs for call in log.calls), key=lambda c: c.num_ranks)
        self._sink.add_guess(
            f"the logs name no global ranks: they are taken from the largest communicator "
            f"({world.comm}, {world.num_ranks} ranks)"
        )
        of_rank = self._placed(world)
        members = Members(world.num_ranks)
        for rank, (_, calls) in of_rank.items():
            for call in calls:
                members.see(call.comm, call.num_ranks, call.rank_in_comm, rank)
        missing = _num_missing(of_rank)
        if missing:
            self._sink.add_guess(
                f"{missing:,} collectives between those in the logs were not recorded: the "
                "Inspector writes the last one of each interval"
            )
        from_dump = sum(log.num_of_dump for log in self._logs)
        if from_dump:
            self._sink.add_guess(
                f"{from_dump:,} collectives say how long they took but not when; each is shown as "
                "ending when its line was written (NCCL_INSPECTOR_DUMP_VERBOSE=1 logs the times)"
            )
        for rank, (log, calls) in sorted(of_rank.items()):
            self._write(rank, log, calls, world.num_ranks, members)

    def _placed(self, world: _Call) -> dict[int, tuple[_Log, list[_Call]]]:
        """Log and calls of every global rank."""
        by_rank: dict[int, tuple[_Log, list[_Call]]] = {}
        waiting: list[_Log] = []
        for log in self._logs:
            ranks = {call.rank_in_comm for call in log.calls if call.comm == world.comm}
            if not ranks:
                waiting.append(log)
            elif len(ranks) == 1:
                self._place(by_rank, ranks.pop(), log, log.calls)
            else:
                self._place_many(by_rank, sorted(ranks), log, world.comm)
        for log in waiting:
            rank = next(r for r in range(len(by_rank) + 1) if r not in by_rank)
            self._sink.add_guess(
                f"{log.name} has no collective of the largest communicator, which gives the "
                f"ranks: shown as rank {rank}"
            )
            by_rank[rank] = (log, log.calls)
        return by_rank

    def _place(
        self, by_rank: dict[int, tuple[_Log, list[_Call]]], rank: int, log: _Log, calls: list[_Call]
    ) -> None:
        if rank in by_rank:
            earlier = by_rank[rank][0].name
            self._sink.add_problem(same_rank(log.name, rank, earlier))
        else:
            by_rank[rank] = (log, calls)

    def _place_many(
        self, by_rank: dict[int, tuple[_Log, list[_Call]]], ranks: list[int], log: _Log, comm: str
    ) -> None:
        """A process with several GPUs: only the largest communicator shows whose a call is."""
        others = sum(call.comm != comm for call in log.calls)
        for rank in ranks:
            own = [c for c in log.calls if c.comm == comm and c.rank_in_comm == rank]
            self._place(by_rank, rank, log, own)
        if others:
            self._sink.add_problem(
                f"{log.name}: holds {len(ranks)} ranks; {others:,} collectives of smaller "
                "communicators left out, because they could belong to any of these ranks"
            )

    def _write(
        self,
        rank: int,
        log: _Log,
        calls: list[_Call],
        world_size: int,
        members: Members,
    ) -> None:
        calls = sorted(calls, key=lambda call: call.start_ns)
        spans = SpanList()
        for call in calls:
            spans.add(
                call.start_ns,
                call.end_ns - call.start_ns,
                "other_comm",
                call.op,
                f"communicator {call.comm}",
                num_bytes=call.num_bytes,
                group_id=_group_id(call.comm),
                coll_seq=call.seq,
            )
        begin_ns, end_ns = spans.extent()
        self._sink.add_rank(
            rank_info(
                rank,
                world_size=world_size,
                host=log.host,
                pid=log.pid,
                started_ns=begin_ns,
                ended_ns=end_ns,
            )
        )
        spans.write(self._sink, rank)
        done = [
            Done(
                group_id=_group_id(call.comm),
                seq=call.seq,
                op=call.op,
                dtype="",
                num_bytes=call.num_bytes,
                enqueue_ns=call.enqueue_ns,
                start_ns=call.start_ns,
                end_ns=call.end_ns,
            )
            for call in calls
        ]
        comms = []
        for comm in sorted({call.comm for call in calls}):
            ranks = members.of(comm)
            axis = "world" if len(ranks) == world_size else "unknown"
            comms.append(Communicator(_group_id(comm), comm, axis, ranks))
        write_collectives(self._sink, rank, FORMAT.name, done, comms)
        add_imported_clock(self._sink, rank, begin_ns)


def _num_missing(of_rank: dict[int, tuple[_Log, list[_Call]]]) -> int:
    """Numbers between the first and the last of each communicator that no line has, over ranks."""
    missing = 0
    for _, calls in of_rank.values():
        seen: dict[str, set[int]] = defaultdict(set)
        for call in calls:
            seen[call.comm].add(call.seq)
        missing += sum(max(s) - min(s) + 1 - len(s) for s in seen.values())
    return missing


def _take(log: _Log, line: Line) -> bool:
    """Keep one line; False where it is damaged."""
    header, perf = line.get("header"), line["coll_perf"]
    metadata = line.get("metadata") if isinstance(line.get("metadata"), dict) else {}
    if not isinstance(header, dict) or not isinstance(metadata, dict):
        return False
    comm, rank, size = header.get("id"), _count(header.get("rank")), _count(header.get("n_ranks"))
    seq, name = _count(perf.get("coll_sn")), perf.get("coll")
    if not isinstance(comm, str) or not isinstance(name, str) or seq < 0:
        return False
    if not 0 <= rank < size <= limits().max_ranks:
        return False
    own_times = _times(perf)
    times = own_times or _times_of_dump(perf, metadata)
    if times is None:
        return False
    if len(log.calls) >= limits().max_rows:
        most = f"{variable('max_rows')}={limits().max_rows}"
        raise ValueError(f"has more collectives than {most}; raise the limit to read it")
    log.num_of_dump += own_times is None
    op = op_name(name) or name[:64].lower()
    log.calls.append(
        _Call(comm[:64], rank, size, op, seq, _count(perf.get("coll_msg_size_bytes")), *times)
    )
    host, pid = metadata.get("hostname"), _count(metadata.get("pid"))
    log.host = host[:256] if isinstance(host, str) else log.host
    log.pid = pid if pid >= 0 else log.pid
    return True


def _times(perf: Line) -> tuple[int, int, int] | None:
    """When it was enqueued, began and ended on the GPU; None where unknown."""
    times = perf.get("event_trace_ts")
    if not isinstance(times, dict):
        return None
    kernels = times.get("kernel_events")
    channels = [k for k in kernels if isinstance(k, dict)] if isinstance(kernels, list) else []
    starts = [us for k in channels if (us := _count(k.get("kernel_start_ts"))) > 0]
    stops = [us for k in channels if (us := _count(k.get("kernel_stop_ts"))) > 0]
    enqueue_us = _count(times.get("coll_start_ts"))
    if enqueue_us <= 0 and not starts:
        return None
    start_us = min(starts) if starts else enqueue_us
    exec_us = max(_count(perf.get("coll_exec_time_us")), 0)
    end_us = max(stops) if stops else start_us + exec_us
    return _in_ns(enqueue_us if enqueue_us > 0 else start_us, start_us, end_us)


def _times_of_dump(perf: Line, metadata: Line) -> tuple[int, int, int] | None:
    """As if it had ended when its line was written."""
    end_us, exec_us = (
        _count(metadata.get("dump_timestamp_us")),
        _count(perf.get("coll_exec_time_us")),
    )
    if end_us <= 0 or exec_us < 0:
        return None
    start_us = end_us - exec_us
    return _in_ns(start_us, start_us, end_us)


def _in_ns(*times_us: int) -> tuple[int, int, int] | None:
    enqueue_ns, start_ns, end_ns = (us * 1000 for us in times_us)
    fits = all(0 < ns < MAX_NS for ns in (enqueue_ns, start_ns, end_ns))
    return (enqueue_ns, start_ns, max(end_ns, start_ns)) if fits else None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < MAX_COUNT else UNKNOWN


def _group_id(comm: str) -> int:
    digest = hashlib.sha256(f"nccl|{comm}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1
