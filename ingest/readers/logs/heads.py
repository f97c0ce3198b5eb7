"""What stands in front of a line: the rank that a launcher names, the time of a container's log."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_RANK = re.compile(r"^\[rank(\d{1,6})\]:? ?")
_LOCAL_RANK = re.compile(r"^\[(?:role|default|[a-z]+)(\d{1,5})\]:? ?")
_SRUN = re.compile(r"^ *(\d{1,6}): ")
_CRI = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP]) ")
_NCCL = re.compile(r"\b([\w.-]{1,80}):(\d{1,9}):\d{1,9} \[(\d{1,3})\]")
_SYSLOG = re.compile(
    r"^(?:[A-Z][a-z]{2} +\d{1,2} [\d:]{8}|\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?) "
    r"([\w.-]{1,80}) (?:kernel|[\w./-]+(?:\[\d+\])?): "
)
_JOURNAL_HINT = b'"__REALTIME_TIMESTAMP"'
_FEWEST_LABELLED, _SHARE_LABELLED = 4, 0.9


class Head(NamedTuple):
    """Parts in front of a line. `rank`: global, `local_rank`: of its host; None unknown."""

    rank: int | None
    local_rank: int | None
    stream: str
    time: str
    text: str
    is_part: bool  # the line goes on in the next one


def head_of(line: str, labelled: bool = False) -> Head:
    """`labelled`: the file has srun's labels (`12: text`)."""
    rank = local_rank = None
    stream = time = ""
    is_part = False
    if (found := _CRI.match(line)) is not None:
        time, stream, is_part = found[1], found[2], found[3] == "P"
        line = line[found.end() :]
    if labelled and (found := _SRUN.match(line)) is not None:
        rank, line = int(found[1]), line[found.end() :]
    if (found := _LOCAL_RANK.match(line)) is not None and not line.startswith("[rank"):
        local_rank, line = int(found[1]), line[found.end() :]
    if (found := _RANK.match(line)) is not None:
        rank, line = int(found[1]), line[found.end() :]
    return Head(rank, local_rank, stream, time, line, is_part)


def is_labelled(lines: list[str]) -> bool:
    """Whether srun has put the number of a task in front of nearly every line, of several tasks."""
    told = [found[1] for line in lines if (found := _SRUN.match(line))]
    enough = len(told) >= max(_FEWEST_LABELLED, _SHARE_LABELLED * len(lines))
    return enough and len(set(told)) > 1


def host_in(text: str) -> str:
    """The host that a line of NCCL or syslog names; '' none."""
    if " NCCL " in text and (found := _NCCL.search(text)) is not None:
        return found[1]
    found = _SYSLOG.match(text)
    return found[1] if found is not None else ""


def is_journal(head: bytes) -> bool:
    """Whether these are lines of journalctl -o json."""
    return head.lstrip()[:1] == b"{" and _JOURNAL_HINT in head[:4096]


def journal_line(line: bytes) -> str:
    """A line of journalctl -o json as journalctl -o short-iso writes it; '' for a damaged one."""
    try:
        entry = json.loads(line)
        when = _iso(int(entry["__REALTIME_TIMESTAMP"]))
        message = entry.get("MESSAGE") or ""
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return ""
    who = entry.get("SYSLOG_IDENTIFIER") or "journal"
    text = message if isinstance(message, str) else "(binary)"
    return f"{when} {entry.get('_HOSTNAME') or 'host'} {who}: {text}"


def _iso(at_us: int) -> str:
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    return when.isoformat(timespec="microseconds")
