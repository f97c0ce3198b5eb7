"""What stands in front of a line: a launcher's rank, a container's or the journal's time and host.

torchrun:    [default3]:text, [rank11]:text
srun:        11: text
mpirun:      [1,11]<stderr>:text, horovodrun without the job's number, and with a time before it
Ray:         (Actor pid=411, ip=10.0.0.3) text
pdsh, MPI operator: node1: text
compose:     train-1  | text
kubectl:     [pod/train-worker-1/pytorch] text, with --timestamps a time behind it
containers:  2026-03-04T10:00:00.123456789Z stderr F text
journal:     Mar 04 10:00:00 node1 python[411]: text, as JSON as well
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ingest.readers.logs.places import is_like_host

_RANK = re.compile(r"\[rank(\d{1,6})\]:? ?|\[[Rr]ank(?:: ?| )(\d{1,6})\]:? ?")
_LOCAL_RANK = re.compile(r"\[(?:[a-z_]{1,40})(\d{1,5})\]: ?")
_MPI = re.compile(r"\[(?:[\w.@-]{1,80},)?(\d{1,6})\]<(stdout|stderr)>: ?")
_RAY = re.compile(
    r"\((?:[^()\n]|\([^()\n]{0,80}\)){0,120}\bpid=(\d{1,9})(?:, ip=([\w.:-]{3,60}))?\) ?"
)
_STREAM = re.compile(r"[\w.-]{1,80} \[(stdout|stderr)\] (?=\[rank\d)")
_OF_HOST = re.compile(r"([A-Za-z0-9][\w.-]{1,80})(?::(?: |$)| {2,20}(\|) ?)")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_SRUN = re.compile(r" {0,5}(\d{1,6}): ?")
_POD = re.compile(r"\[pod/([^/\s\]]{1,253})/[^\s\]]{1,253}\] ?")
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_CRI = re.compile(rf"({_TIME}\.\d{{1,9}}(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP]) ?")
_BEFORE_RANK = re.compile(
    r"(\[?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?\]?) "
    r"(?=\[rank\d)"
    r"|([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})(?=\[\d{1,6}\]<std)"
)
"""A time that some launchers write in front of a rank."""
_CONTAINER_TIME = re.compile(rf"({_TIME}\.\d{{5,9}}(?:Z|[+-]\d\d:?\d\d)) ")
_SYSLOG = re.compile(
    r"([A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    rf"|{_TIME}(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?)"
    r" ([\w.-]{1,80}) ([\w./()@-]{1,80}?)(\[\d{1,9}\])?: ?"
)
_BY_TIME_ALONE = re.compile(r"[A-Z]")
"""Syslog's own form of time; the other one is that of many programs."""
_DAEMON = re.compile(
    r"kernel|systemd[\w-]*|slurm\w*|srun|kubelet|containerd|dockerd|nvidia[\w-]*|nv-[\w-]+"
)
_OF_JOB = re.compile(r"(?i)python|torchrun|train|docker|container|^(?:ba)?sh$|\.sh$|\.py$")
"""Programs that write a job's lines: their names say nothing."""
_SCHEDULERS = ("slurm", "srun", "kubelet")
_NCCL = re.compile(r"\b([\w.-]{1,80}):\d{1,9}:\d{1,9} \[\d{1,3}\]")
_RECORD = re.compile(
    rb'\s*\{[^\n]{0,4000}(?:"__REALTIME_TIMESTAMP"|"log"\s?:[^\n]{0,4000}"time"\s?:)'
)
_FEWEST_LABELLED, _SHARE_LABELLED = 4, 0.9
_SHARE_OF_HOSTS, _LINES_OF_HOST = 0.6, 2
"""Of the lines so many, and of each host at least so many."""
_MOST_PREFIXES = 5


class Head(NamedTuple):
    """Parts in front of a line. `rank`: global, `local_rank`: of its host; None unknown; all
    texts empty where unknown. `is_part`: the line goes on in the next one. `process`: which of
    several on a host wrote it, as Ray says in front of `text`.
    """

    rank: int | None
    local_rank: int | None
    host: str
    stream: str
    time: str
    text: str
    is_part: bool = False
    process: str = ""

    @property
    def shown(self) -> str:
        """The text as it is kept: a process that has no rank stays in front of it."""
        return f"{self.process}{self.text}"


def head_of(line: str, labelled: bool = False, hosts: frozenset[str] = frozenset()) -> Head:
    """`labelled`: the file has srun's labels; `hosts`: names that stand in front of its lines."""
    head = Head(None, None, "", "", "", line)
    for _ in range(_MOST_PREFIXES):
        first = head.text[:1]
        if hosts and not head.host and (match := _OF_HOST.match(head.text)) and match[1] in hosts:
            shorter: Head | None = head._replace(host=match[1], text=head.text[match.end() :])
        elif first == "[":
            shorter = _without_brackets(head) or _without_time(head)
        elif first == "(":
            shorter = _without_process(head)
        elif first.islower() and " [std" in head.text[:100]:
            shorter = _without_stream(head)
        elif first.isdigit() or first.isupper() or first == " ":
            shorter = _without_time(head) or (_without_label(head) if labelled else None)
        else:
            break
        if shorter is None:
            break
        head = shorter
    return head


def _without_brackets(head: Head) -> Head | None:
    text = head.text
    if (match := _RANK.match(text)) is not None:
        return head._replace(rank=int(match[1] or match[2]), text=text[match.end() :])
    if (match := _LOCAL_RANK.match(text)) is not None:
        return head._replace(local_rank=int(match[1]), text=text[match.end() :])
    if (match := _POD.match(text)) is not None:
        return head._replace(host=match[1], text=text[match.end() :])
    if (match := _MPI.match(text)) is not None:
        return head._replace(rank=int(match[1]), stream=match[2], text=text[match.end() :])
    return None


def _without_process(head: Head) -> Head | None:
    match = _RAY.match(head.text)
    if match is None or head.process:
        return None
    text = head.text[match.end() :]
    return head._replace(process=match[0], host=match[2] or head.host, text=text)


def _without_stream(head: Head) -> Head | None:
    match = _STREAM.match(head.text)
    return match and head._replace(stream=match[1], text=head.text[match.end() :])


def _without_label(head: Head) -> Head | None:
    match = _SRUN.match(head.text)
    if match is None or head.rank is not None:
        return None
    return head._replace(rank=int(match[1]), text=head.text[match.end() :])


def _without_time(head: Head) -> Head | None:
    text = head.text
    if head.time:
        return None
    if (match := _BEFORE_RANK.match(text)) is not None:
        return head._replace(time=match[1] or match[2], text=text[match.end() :])
    if (match := _CRI.match(text)) is not None:
        rest, is_part = text[match.end() :], match[3] == "P"
        return head._replace(time=match[1], stream=match[2], text=rest, is_part=is_part)
    if (match := _SYSLOG.match(text)) is not None and _is_syslog(match):
        program = match[3]
        stream = "kernel" if program == "kernel" else head.stream
        if program.startswith(_SCHEDULERS):
            stream = "scheduler"
        hides = program == "kernel" or _OF_JOB.search(program)
        rest = text[match.end() :]
        return head._replace(
            time=match[1],
            host=match[2],
            stream=stream,
            text=rest if hides else f"{program}: {rest}",
        )
    if (match := _CONTAINER_TIME.match(text)) is not None:
        return head._replace(time=match[1], text=text[match.end() :])
    return None


def _is_syslog(match: re.Match[str]) -> bool:
    """Whether a host and a program follow on the time, and no other words of a program."""
    is_sure = _BY_TIME_ALONE.match(match[1]) is not None
    return is_sure or match[4] is not None or _DAEMON.fullmatch(match[3]) is not None


def is_labelled(lines: Sequence[str]) -> bool:
    """Whether srun has put the number of a task in front of nearly every line, of several tasks."""
    tasks = [match[1] for line in lines if (match := _SRUN.match(line))]
    enough = len(tasks) >= max(_FEWEST_LABELLED, _SHARE_LABELLED * len(lines))
    return enough and len(set(tasks)) > 1


def hosts_before_lines(lines: Sequence[str]) -> frozenset[str]:
    """Hosts, or containers, whose names a launcher has put in front of most lines."""
    counted = Counter(match.groups() for line in lines if (match := _OF_HOST.match(line)))
    names = {
        name: count
        for (name, bar), count in counted.items()
        if count >= _LINES_OF_HOST and (bar or _ADDRESS.fullmatch(name) or is_like_host(name))
    }
    enough = sum(names.values()) >= max(_FEWEST_LABELLED, _SHARE_OF_HOSTS * len(lines))
    return frozenset(names) if enough else frozenset()


def host_in(text: str) -> str:
    """The host that a line of NCCL names; '' none."""
    match = _NCCL.search(text[:400]) if " NCCL " in text else None
    return match[1] if match is not None else ""


def is_records(head: bytes) -> bool:
    """Whether the lines are JSON: of journalctl -o json, or of Docker's log files."""
    return _RECORD.match(head) is not None


def record_line(record: bytes) -> str:
    """A line of JSON as the journal or a container's runtime writes it; '' for a damaged one."""
    try:
        entry = json.loads(record)
        if "log" in entry:
            return f"{entry['time']} {entry.get('stream') or 'stdout'} F {entry['log']}".rstrip()
        when = _iso(int(entry["__REALTIME_TIMESTAMP"]))
        message = entry.get("MESSAGE") or ""
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return ""
    program = entry.get("SYSLOG_IDENTIFIER") or "journal"
    text = message if isinstance(message, str) else "(binary)"
    return f"{when} {entry.get('_HOSTNAME') or 'host'} {program}[{entry.get('_PID') or 0}]: {text}"


def _iso(at_us: int) -> str:
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    return when.isoformat(timespec="microseconds")
