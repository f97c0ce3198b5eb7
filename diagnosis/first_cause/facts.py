"""What a line's text tells besides its meaning: exceptions, frames, timeouts, processes, hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diagnosis.first_cause.origins import without_origin
from trace_hooks.log_text.label import Label

_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"^(?:[\w.]{1,120}\.)?[A-Z]\w{1,80}(?:Error|Exception|NotMet|Failure|Exit|Timeout)(?::|$)"
)
_TORN = re.compile(r"\b[A-Z]\w{1,80}(?:Error|Exception)\b")
_RAISED = re.compile(r"^[A-Za-z_][\w.]{1,160}(?:: |:?$)")
_RAISED_AGAIN = re.compile(
    r"Caught \w+ in (?:DataLoader worker process|replica|pin memory)|raised in its creation task"
)
"""Stands before the traceback of the process that raised it."""
_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,9})(?:, in (\S{1,120}))?')
_FOREIGN = re.compile(r"site-packages|dist-packages|/lib/python\d|/torch/|<frozen|<string>")
_VARYING = re.compile(
    r"0x[0-9a-f]+|(?<![A-Za-z])\d+(?:\.\d+)?|'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|/[\w./-]{2,}"
)
_TIMEOUT = re.compile(r"Timeout\(ms\) ?= ?(\d{1,12})|(?:after|waiting|in|timeout) (\d{1,12}) ?ms")
_RAN = re.compile(r"ran for (\d{1,12}) milliseconds")
_WORK = re.compile(r"SeqNum=(\d{1,12}), OpType=(\w{1,40})")
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (-?\d{1,12})")
_GROUP = re.compile(r"\[PG (?:ID (\d{1,9}) PG )?(?:GUID )?([\w().-]{1,80}) ")
_ASKED = re.compile(r"retr(?:ie|ei)ving ncclUniqueId from \[(\d{1,6})\]")
_PASSED_OVER = re.compile(r"Ranks? (\d{1,6}(?:, ?\d{1,6}){0,64}) failed to pass monitoredBarrier")
_PID = re.compile(
    r"\bpid(?:\(s\))?[ =:']{1,3}'?(\d{1,9})|[Kk]ill(?:ed)? process (\d{1,9})"
    r"|[\w.-]{1,16}\[(\d{1,9})\]:? (?:segfault|general protection|trap)"
)
_PEER = re.compile(r"(?:peer|from|to) (\d{1,3}(?:\.\d{1,3}){3}|[\w.-]{1,80})<\d")
_NAMED_HOST = re.compile(
    r"srun: error: ([\w.-]{1,80}): tasks? \d|Node failure on ([\w.-]{1,80})"
    r"|[Nn]ode ([\w.-]{1,80}) (?:status is now|is not ready|not responding)"
    r"|slurmstepd-([\w.-]{1,80}): error"
)

NUM_FRAMES = 3


@dataclass(frozen=True)
class Work:
    """A collective that timed out. `group`: of ranks, '' unknown."""

    group: str
    seq: int
    op: str
    timeout_ms: int


def introduction_of(text: str, before: str) -> str | None:
    """What stands in front of a traceback: in its first line, else the line `before` it; None for
    other texts.
    """
    first, is_traceback, _ = text.partition("\n")[0].partition(_TRACEBACK)
    return (first.strip() or before) if is_traceback else None


def quoted(text: str, label: Label | None) -> str:
    """The line that says it: of several that belong together the first with the label's meaning,
    else the exception, else the first one.
    """
    lines = [without_origin(line) for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and label is not None:
        is_code = " " if _TRACEBACK in text else "  File "
        of_label = (line for line in lines if not line.startswith(is_code))
        found = next((line for line in of_label if label.matches(line, line.lower())), None)
        if found is not None and label.name != "exception":
            return found.strip()[:300]
    return (exception_of(text) or _torn(lines) or (lines[0] if lines else "")).strip()[:300]


def _torn(lines: Sequence[str]) -> str:
    """Of a traceback whose lines others tore apart the last one that names an exception."""
    named = (line for line in reversed(lines) if _TORN.search(line) and "  File " not in line)
    return next(named, "")


def exception_of(text: str) -> str:
    """The first exception of a traceback, or a line that is one; '' none. One that a process raised
    again for another goes behind that one's.
    """
    form, again = _EXCEPTION, ""
    for raw in text.splitlines():
        line = without_origin(raw)
        if _TRACEBACK in line:
            form = _RAISED
        elif form.match(line):
            if not _RAISED_AGAIN.search(line):
                return line.strip()
            again = again or line.strip()
    return again


def names_exception(text: str) -> bool:
    """Whether a text says which exception it is about, a torn one included."""
    return bool(exception_of(text) or _torn(text.splitlines()))


def signature_of(text: str) -> str:
    """The exception without what varies between ranks: equal where it is the same one."""
    shown = exception_of(text) or quoted(text, None)
    return _VARYING.sub("#", shown)[:200]


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
    return Work(group_of(text), int(found[1]), found[2], timeout_ms(text)) if found else None


def last_enqueued(text: str) -> int | None:
    """Number of the last collective that a rank entered, as its watchdog says."""
    found = _ENQUEUED.search(text)
    return int(found[1]) if found else None


def group_of(text: str) -> str:
    """The group of ranks that a watchdog's line is about; '' none named."""
    found = _GROUP.search(text)
    return found[2] if found else ""


def rank_asked(text: str) -> int:
    """The rank whose communicator id a rank waited for in vain; -1 none."""
    found = _ASKED.search(text)
    return int(found[1]) if found else -1


def ranks_passed_over(text: str) -> tuple[int, ...]:
    """Ranks that did not come to a monitored barrier."""
    found = _PASSED_OVER.search(text)
    return tuple(sorted({int(part) for part in found[1].split(",")})) if found else ()


def pid_of(text: str) -> int | None:
    """The process that a line of the kernel is about."""
    found = _PID.search(text)
    return int(next(filter(None, found.groups()))) if found else None


def peer_address(text: str) -> str:
    """Address or host of the other side, '' none."""
    found = _PEER.search(text)
    return found[1] if found else ""


def named_host(text: str) -> str:
    """The host that a scheduler's line is about, '' none."""
    found = _NAMED_HOST.search(text)
    return next(filter(None, found.groups()), "") if found else ""
