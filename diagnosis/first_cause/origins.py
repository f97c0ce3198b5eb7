"""Who wrote a line, or whom it is about, as its text says: rank, host and process.

Several ranks and hosts often share a file. NCCL's lines begin with host:process:thread [device],
mpirun's with [job,rank]<stream>, Ray's with (Actor pid=, ip=); c10d names a rank, which is that of
the job only for the group of all ranks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NCCL = re.compile(r"(?<![\w.])([A-Za-z0-9][\w.-]{0,80}):(\d{1,9}):\d{1,9} \[(\d{1,3})\]")
_CAUGHT = re.compile(r"\[([\w.-]{1,80}):(\d{1,9}) {0,4}:\d{1,9}:\d{1,9}\] Caught signal")
_RAY = re.compile(r"^\(.{1,120}?\bpid=(\d{1,9})(?:, ip=([\w.:-]{3,60}))?\) ?")
_TAG = re.compile(r"\[rank(\d{1,6})\]:|^\[\d{1,9},(\d{1,6})\]<std(?:out|err)>:")
_MESSAGE = re.compile(
    r"\bRank (\d{1,6}): found NaN|\bRank (\d{1,6}), node |on rank (\d{1,6}) at iteration"
    r"|Error: \[(\d{1,6})\] is setting up NCCL|\[rank: (\d{1,6})\] (?:Child process|Received SIG)"
)
_C10D = re.compile(
    r"\[(?:PG [^\]\n]{0,60}?(\(default_pg\)|default_pg)[^\]\n]{0,20} )?Rank (\d{1,6})\]"
)
_NODE = re.compile(r"\bnode:? ([\w.-]{2,80})(?:, device|$|\n)")
_HEADS = re.compile(
    r"^(?:\[rank\d+\]:\s?|\[ {0,8}\d{1,9}\.\d{3,9}\]\s+|\[\d+,\d+\]<std(?:out|err)>:\s?"
    r"|\s*\| \d{4}-\d\d-\d\dT[\d:.]+Z \| ?"
    r"|\[?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d[.,\d]*\]?\s+(?=\[rank|[\w.-]+:\d+:\d+ \[)"
    r"|[\w.-]+:\d+:\d+ \[\d+\]\s+(?:NCCL INFO )?(?=\S))+"
)


@dataclass(frozen=True)
class Origin:
    """`rank` -1, `host` '' and `pid` None: not named. `is_sure`: it is the rank in the job, which
    goes before what the file's name says.
    """

    rank: int = -1
    host: str = ""
    pid: int | None = None
    is_sure: bool = False


def origin_of(text: str) -> Origin:
    """Of a line or block, by its first line that names somebody."""
    head = text[:400]
    host, pid = _process(head)
    message = _MESSAGE.search(text)
    if message is not None:
        rank = int(next(filter(None, message.groups())))
        node = _NODE.search(text)
        return Origin(rank, node[1] if node else host, pid, is_sure=True)
    if (tag := _TAG.search(head)) is not None:
        return Origin(int(tag[1] or tag[2]), host, pid, is_sure=True)
    of_group = _C10D.search(head)
    return Origin(int(of_group[2]) if of_group else -1, host, pid)


def _process(head: str) -> tuple[str, int | None]:
    if " NCCL " in head and (found := _NCCL.search(head)):
        return found[1], int(found[2])
    if found := _CAUGHT.search(head):
        return found[1], int(found[2])
    if found := _RAY.match(head):
        return found[2] or "", int(found[1])
    return "", None


def without_origin(line: str) -> str:
    """The line without what stands in front of it about its rank, process and time."""
    line = _RAY.sub("", line)
    return _HEADS.sub("", line) or line
