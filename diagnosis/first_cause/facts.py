"""What a line's text tells besides its meaning: exceptions, frames, timeouts, processes, hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass

_EXCEPTION = re.compile(
    r"^(?:\[\w+\]:? ?)?((?:[\w.]{1,120}\.)?[A-Z]\w{1,80}"
    r"(?:Error|Exception|NotMet|Failure|Exit|Timeout))(?:: ?(.*))?$",
    re.MULTILINE,
)
_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,9})(?:, in (\S{1,120}))?')
_FOREIGN = re.compile(r"site-packages|dist-packages|/lib/python\d|/torch/|<frozen|<string>")
_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?|'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|/[\w./-]{2,}")
_TIMEOUT = re.compile(r"Timeout\(ms\) ?= ?(\d{1,12})|(?:after|waiting|in|timeout) (\d{1,12}) ?ms")
_RAN = re.compile(r"ran for (\d{1,12}) milliseconds")
_WORK = re.compile(r"SeqNum=(\d{1,12}), OpType=(\w{1,40})")
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (-?\d{1,12})")
_RANK_IN_TEXT = re.compile(r"\bRank (\d{1,6})\]|\[rank(\d{1,6})\]")
_PASSED_OVER = re.compile(r"Ranks? (\d{1,6}(?:, ?\d{1,6}){0,64}) failed to pass monitoredBarrier")
_PID = re.compile(r"\bpid(?:\(s\))?[ =:']{1,3}'?(\d{1,9})|[Kk]ill(?:ed)? process (\d{1,9})")
_PEER = re.compile(r"(?:peer|from) (\d{1,3}(?:\.\d{1,3}){3})<")
_NAMED_HOST = re.compile(
    r"srun: error: ([\w.-]{1,80}): tasks? \d|Node failure on ([\w.-]{1,80})"
    r"|[Nn]ode ([\w.-]{1,80}) (?:status is now|is not ready|not responding)"
    r"|slurmstepd-([\w.-]{1,80}): error"
)

NUM_FRAMES = 3


@dataclass(frozen=True)
class Work:
    """A collective that timed out."""

    seq: int
    op: str
    timeout_ms: int


def exception_of(text: str) -> str:
    """The exception, its message shortened to a line; else the first line of the text."""
    found = _EXCEPTION.search(text)
    line = found[0] if found else next(filter(str.strip, text.splitlines()), "")
    return line.strip()[:300]


def signature_of(text: str) -> str:
    """The exception without what varies between ranks: equal where it is the same one."""
    return _VARYING.sub("#", exception_of(text))[:200]


def user_frames(text: str) -> tuple[str, ...]:
    """The innermost frames of a traceback that are not of a library: `file:line in function`."""
    frames = [found for found in _FRAME.finditer(text) if not _FOREIGN.search(found[1])]
    return tuple(
        f"{found[1]}:{found[2]}" + (f" in {found[3]}" if found[3] else "")
        for found in frames[-NUM_FRAMES:]
    )


def timeout_ms(text: str) -> int:
    """How long a call that timed out had waited; 0 unknown."""
    ran, limit = _RAN.search(text), _TIMEOUT.search(text)
    if ran:
        return int(ran[1])
    return int(limit[1] or limit[2]) if limit else 0


def work_of(text: str) -> Work | None:
    """The collective that a watchdog names."""
    found = _WORK.search(text)
    return Work(int(found[1]), found[2], timeout_ms(text)) if found else None


def last_enqueued(text: str) -> int | None:
    """Number of the last collective that a rank entered, as its watchdog says."""
    found = _ENQUEUED.search(text)
    return int(found[1]) if found else None


def rank_in_text(text: str) -> int:
    """The rank that a line says it is of; -1 none."""
    found = _RANK_IN_TEXT.search(text)
    return int(found[1] or found[2]) if found else -1


def ranks_passed_over(text: str) -> tuple[int, ...]:
    """Ranks that did not come to a monitored barrier."""
    found = _PASSED_OVER.search(text)
    return tuple(sorted({int(part) for part in found[1].split(",")})) if found else ()


def pid_of(text: str) -> int | None:
    """The process that a line of the kernel is about."""
    found = _PID.search(text)
    return int(next(filter(None, found.groups()))) if found else None


def peer_address(text: str) -> str:
    """Address of the other side, '' none."""
    found = _PEER.search(text)
    return found[1] if found else ""


def named_host(text: str) -> str:
    """The host that a scheduler's line is about, '' none."""
    found = _NAMED_HOST.search(text)
    return next(filter(None, found.groups()), "") if found else ""
