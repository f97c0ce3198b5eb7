"""Logs of NCCL's Inspector plugin: JSON lines, one file per process, one line per collective.

Format: https://github.com/NVIDIA/nccl (ext-profiler/inspector, versions 4.0 to 4.4). Of each
communicator the plugin writes what was over since the last dump, as far as its ring holds it:
numbers have gaps. A line names the rank inside its communicator, not the global one.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ingest.readers.base import Format, Sink, same_rank
from ingest.readers.nccl_inspector.log_file import Call, Log, is_log, log_of
from ingest.readers.parsing.sources import Source
from ingest.readers.tables.finished_collectives import (
    UNMATCHED_SEQ,
    Communicator,
    Done,
    Members,
    write_collectives,
)
from ingest.readers.tables.rows import rank_info, rows
from ingest.readers.tables.span_list import SpanList
from ingest.readers.tables.staged_rows import StagedRows
from ingest.readers.tables.whole_files import add_imported_clock
from trace_hooks.schema import UNKNOWN

FORMAT = Format("nccl_inspector", "NCCL Inspector", has_own_clocks=True)


def recognises(source: Source) -> bool:
    """Whether its lines are collectives, messages or counters as the Inspector writes them."""
    return is_log(source)


def read(source: Source, staged: StagedRows) -> Log | None:
    """Read one log."""
    log, problems = log_of(source)
    if log.num_others:
        problems.append(
            f"{log.num_others:,} lines left out because they are not collectives or messages"
        )
    if log.num_alone:
        problems.append(
            f"{log.num_alone:,} lines left out because no line in front of them names their "
            "communicator: the beginning of the log is missing"
        )
    if log.num_dropped:
        problems.append(
            f"{log.num_dropped:,} collectives and messages were lost before they could be written: "
            "enlarge NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, or dump more often"
        )
    if not log.calls:
        problems.append("no collective could be read")
    for problem in problems:
        staged.add_problem(f"{source.name}: {problem}")
    return log if log.calls else None


class Import:
    """One import: the logs of a job."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._logs: list[Log] = []

    def add_file(self, log: Log) -> None:
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
        numbers = _Numbers([call for log in self._logs for call in log.calls])
        names = {comm: name for log in self._logs for comm, name in log.names.items()}
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
            self._write(rank, log, calls, world.num_ranks, members, numbers, names)

    def _placed(self, world: Call) -> dict[int, tuple[Log, list[Call]]]:
        """Log and calls of every global rank."""
        by_rank: dict[int, tuple[Log, list[Call]]] = {}
        waiting: list[Log] = []
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
        self, by_rank: dict[int, tuple[Log, list[Call]]], rank: int, log: Log, calls: list[Call]
    ) -> None:
        if rank in by_rank:
            earlier = by_rank[rank][0].name
            self._sink.add_problem(same_rank(log.name, rank, earlier))
        else:
            by_rank[rank] = (log, calls)

    def _place_many(
        self, by_rank: dict[int, tuple[Log, list[Call]]], ranks: list[int], log: Log, comm: str
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
        log: Log,
        calls: list[Call],
        world_size: int,
        members: Members,
        numbers: _Numbers,
        names: Mapping[str, str],
    ) -> None:
        calls = sorted(calls, key=lambda call: call.start_ns)
        spans = SpanList()
        for call in calls:
            spans.add(
                call.start_ns,
                call.end_ns - call.start_ns,
                "other_comm",
                call.op,
                f"communicator {names.get(call.comm, call.comm)}",
                num_bytes=call.num_bytes,
                group_id=_group_id(call.comm),
                coll_seq=UNKNOWN if call.is_message else numbers.of(call),
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
                seq=numbers.of(call),
                op=call.op,
                dtype="",
                num_bytes=call.num_bytes,
                enqueue_ns=call.enqueue_ns,
                start_ns=call.start_ns,
                end_ns=call.end_ns,
            )
            for call in calls
            if not call.is_message
        ]
        comms = []
        for comm in sorted({call.comm for call in calls}):
            ranks = members.of(comm)
            axis = "world" if len(ranks) == world_size else "unknown"
            name = names.get(comm, comm)
            comms.append(Communicator(_group_id(comm), name, axis, ranks))
        write_collectives(self._sink, rank, FORMAT.name, done, comms)
        self._write_messages(rank, [call for call in calls if call.is_message], members, numbers)
        add_imported_clock(self._sink, rank, begin_ns)

    def _write_messages(
        self, rank: int, calls: Sequence[Call], members: Members, numbers: _Numbers
    ) -> None:
        if not calls:
            return
        of_comm = {call.comm: members.of(call.comm) for call in calls}
        peers = [(of_comm[call.comm], call.peer) for call in calls]
        columns = {
            "rank": rank,
            "source": FORMAT.name,
            "state": "completed",
            "group_id": [_group_id(call.comm) for call in calls],
            "seq": [numbers.of(call) for call in calls],
            "op": [call.op for call in calls],
            "num_bytes": [call.num_bytes for call in calls],
            "peer": [ranks[peer] if 0 <= peer < len(ranks) else UNKNOWN for ranks, peer in peers],
            "enqueue_ns": [call.enqueue_ns for call in calls],
            "start_ns": [call.start_ns for call in calls],
            "end_ns": [call.end_ns for call in calls],
        }
        self._sink.add_rows("collectives", rank, rows("collectives", len(calls), columns))


def _num_missing(of_rank: Mapping[int, tuple[Log, list[Call]]]) -> int:
    """Numbers between the first and the last that no line has, over ranks; NCCL counts them per
    communicator and operation.
    """
    missing = 0
    for _, calls in of_rank.values():
        seen: dict[tuple[str, str], set[int]] = defaultdict(set)
        for call in calls:
            if not call.is_message:
                seen[call.comm, call.op].add(call.seq)
        missing += sum(max(s) - min(s) + 1 - len(s) for s in seen.values())
    return missing


class _Numbers:
    """Numbers that differ for different operations of a communicator: NCCL counts each by itself.

    Messages are set apart: their two sides count differently.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        ops: dict[str, set[str]] = defaultdict(set)
        for call in calls:
            if not call.is_message:
                ops[call.comm].add(call.op)
        self._ops = {comm: sorted(names) for comm, names in ops.items()}

    def of(self, call: Call) -> int:
        """The number of a call."""
        if call.is_message:
            return UNMATCHED_SEQ + 2 * call.seq + (call.op == "recv")
        ops = self._ops[call.comm]
        return call.seq * len(ops) + ops.index(call.op)


def _group_id(comm: str) -> int:
    digest = hashlib.sha256(f"nccl|{comm}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") >> 1 or 1
