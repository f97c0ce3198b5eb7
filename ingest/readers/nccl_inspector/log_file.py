"""One log of NCCL's Inspector, line by line, checked before anything in it is believed.

Up to version 4.2 each line names its communicator. From 4.3 on only the line of a dump's counters
(dump_stats) does, for as many lines after it as it counts. Source: ext-profiler/inspector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ingest.limits import limits, variable
from ingest.readers.parsing.json_lines import JsonLines, Line, first_objects
from ingest.readers.parsing.sources import Source
from ingest.readers.parsing.trace_events import MAX_COUNT, MAX_NS
from ingest.readers.tables.torch_names import op_name
from trace_hooks.schema import UNKNOWN

KINDS = ("coll", "p2p")
_COUNTED = ("coll_records", "p2p_records", "proxy_records")
_LONGEST_COMM = 64
_LONGEST_NAME = 256


class Call(NamedTuple):
    """One collective or message of one rank of a communicator; `peer` in it, -1 none."""

    comm: str
    rank_in_comm: int
    num_ranks: int
    op: str
    seq: int
    num_bytes: int
    peer: int
    enqueue_ns: int
    start_ns: int
    end_ns: int

    @property
    def is_message(self) -> bool:
        """Whether only two ranks take part."""
        return self.op in ("send", "recv")


@dataclass
class Log:
    """One file, read."""

    name: str
    calls: list[Call] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """names of communicators, where their framework gave any"""
    host: str = ""
    pid: int = UNKNOWN
    num_of_dump: int = 0
    """calls without times of their own"""
    num_dropped: int = 0
    """records that newer ones overwrote before they were written"""
    num_others: int = 0
    num_alone: int = 0
    """lines without a communicator, and with no dump_stats in front that names one"""


@dataclass
class _Context:
    """Of lines that do not name their communicator: what the last dump_stats says."""

    header: Line = field(default_factory=dict)
    metadata: Line = field(default_factory=dict)
    num_left: int = 0


def is_log(source: Source) -> bool:
    """Whether its lines are those that the Inspector writes."""
    bodies = ("coll_perf", "p2p_perf", "dump_stats")
    return any(
        isinstance(line.get("header"), dict)
        and any(isinstance(line.get(body), dict) for body in bodies)
        for line in first_objects(source.head)
    )


def log_of(source: Source) -> tuple[Log, list[str]]:
    """What a file holds, and its problems. Raises ValueError for more records than allowed."""
    lines = JsonLines(source.read)
    log, context = Log(source.name), _Context()
    dropped: dict[tuple[str, int], int] = {}
    for line in lines:
        if isinstance(line.get("dump_stats"), dict):
            context = _begun(log, line, dropped)
            continue
        kind = next((k for k in KINDS if isinstance(line.get(f"{k}_perf"), dict)), None)
        is_own = isinstance(line.get("header"), dict)
        if not is_own:
            context.num_left -= 1
        if kind is None:
            log.num_others += 1
        elif not is_own and context.num_left < 0:
            log.num_alone += 1
        elif not _take(log, line if is_own else _within(context, line), kind):
            lines.refuse()
    log.num_dropped = sum(dropped.values())
    return log, [*source.damages(), *lines.problems]


def _begun(log: Log, line: Line, dropped: dict[tuple[str, int], int]) -> _Context:
    """A dump begins: whose it is, how many lines follow, and what its rings have lost."""
    stats: Line = line["dump_stats"]
    context = _Context(_dict(line, "header"), _dict(line, "metadata"))
    context.num_left = sum(max(_count(stats.get(name)), 0) for name in _COUNTED)
    _learn(log, context.header, context.metadata)
    key = str(context.header.get("id"))[:_LONGEST_COMM], _count(context.header.get("rank"))
    total = sum(max(_count(stats.get(f"{kind}_dropped_total")), 0) for kind in KINDS)
    dropped[key] = max(dropped.get(key, 0), total)
    return context


def _within(context: _Context, line: Line) -> Line:
    return {**line, "header": context.header, "metadata": context.metadata}


def _learn(log: Log, header: Line, metadata: Line) -> None:
    """Name of the communicator, host and process."""
    comm, name = header.get("id"), header.get("comm_name")
    if isinstance(comm, str) and isinstance(name, str) and name.strip():
        log.names[comm[:_LONGEST_COMM]] = name[:_LONGEST_NAME]
    host, pid = metadata.get("hostname"), _count(metadata.get("pid"))
    log.host = host[:_LONGEST_NAME] if isinstance(host, str) else log.host
    log.pid = pid if pid >= 0 else log.pid


def _take(log: Log, line: Line, kind: str) -> bool:
    """Keep one line; False where it is damaged."""
    header, metadata, perf = line["header"], _dict(line, "metadata"), line[f"{kind}_perf"]
    comm, rank, size = header.get("id"), _count(header.get("rank")), _count(header.get("n_ranks"))
    seq, name = _count(perf.get(f"{kind}_sn")), perf.get(kind)
    if not isinstance(comm, str) or not isinstance(name, str) or seq < 0:
        return False
    if not 0 <= rank < size <= limits().max_ranks:
        return False
    own_times = _times(perf, kind)
    times = own_times or _times_of_dump(perf, metadata, kind)
    op = op_name(name) or name[:64].lower()
    if times is None or (kind == "p2p") != (op in ("send", "recv")):
        return False
    if len(log.calls) >= limits().max_rows:
        most = f"{variable('max_rows')}={limits().max_rows}"
        raise ValueError(f"has more collectives than {most}; raise the limit to read it")
    log.num_of_dump += own_times is None
    peer = _count(perf.get("p2p_peer")) if kind == "p2p" else UNKNOWN
    num_bytes = _count(perf.get(f"{kind}_msg_size_bytes"))
    comm = comm[:_LONGEST_COMM]
    log.calls.append(Call(comm, rank, size, op, seq, num_bytes, peer, *times))
    _learn(log, header, metadata)
    return True


def _times(perf: Line, kind: str) -> tuple[int, int, int] | None:
    """When it was enqueued, began and ended on the GPU; None where unknown."""
    times = perf.get("event_trace_ts")
    if not isinstance(times, dict):
        return None
    kernels = times.get("kernel_events")
    channels = [k for k in kernels if isinstance(k, dict)] if isinstance(kernels, list) else []
    starts = [us for k in channels if (us := _count(k.get("kernel_start_ts"))) > 0]
    stops = [us for k in channels if (us := _count(k.get("kernel_stop_ts"))) > 0]
    enqueue_us = _count(times.get(f"{kind}_start_ts"))
    if enqueue_us <= 0 and not starts:
        return None
    start_us = min(starts) if starts else enqueue_us
    exec_us = max(_count(perf.get(f"{kind}_exec_time_us")), 0)
    end_us = max(stops) if stops else start_us + exec_us
    return _in_ns(enqueue_us if enqueue_us > 0 else start_us, start_us, end_us)


def _times_of_dump(perf: Line, metadata: Line, kind: str) -> tuple[int, int, int] | None:
    """As if it had ended when its line was written."""
    end_us = _count(metadata.get("dump_timestamp_us"))
    exec_us = _count(perf.get(f"{kind}_exec_time_us"))
    if end_us <= 0 or exec_us < 0:
        return None
    start_us = end_us - exec_us
    return _in_ns(start_us, start_us, end_us)


def _in_ns(*times_us: int) -> tuple[int, int, int] | None:
    enqueue_ns, start_ns, end_ns = (us * 1000 for us in times_us)
    fits = all(0 < ns < MAX_NS for ns in (enqueue_ns, start_ns, end_ns))
    return (enqueue_ns, start_ns, max(end_ns, start_ns)) if fits else None


def _dict(line: Line, key: str) -> Line:
    value = line.get(key)
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < MAX_COUNT else UNKNOWN
