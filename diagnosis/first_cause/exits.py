"""How processes ended, as their launchers say: rank, host, process and exit code.

Known: torchrun, srun, mpirun, torch.multiprocessing, Lightning and Composer. DeepSpeed's launcher
prints the command of its last process whichever failed, so that its local_rank means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FAILED = re.compile(r"failed \(exitcode: (-?\d{1,4})\) local_rank: (\d{1,5}) \(pid: (\d{1,9})\)")
_IN_BOX = re.compile(
    r"host {0,8}: ([\w.-]{1,80})\s+rank {0,8}: (\d{1,6}) \(local_rank: \d{1,5}\)\s+"
    r"exitcode {0,8}: (-?\d{1,4}) \(pid: (\d{1,9})\)"
)
_SRUN = re.compile(
    r"srun: error: ([\w.-]{1,80}): tasks? ([\d,-]{1,200}): (Exited with exit code (\d{1,4})|Killed"
    r"|Segmentation fault|Bus error|Aborted|Out Of Memory|Terminated)"
)
_MPIRUN = re.compile(
    r"process rank (\d{1,6}) with PID \d{1,9} on node ([\w.-]{1,80}) exited on signal (\d{1,3})"
    r"|Process name: \[\[\d+,\d+\],(\d{1,6})\]\s+Exit code: {1,8}(-?\d{1,4})"
)
_SPAWNED = re.compile(
    r"process (\d{1,5}) terminated with (?:signal (SIG[A-Z]{3,5})|exit code (-?\d{1,4}))"
    r"|\[rank: (\d{1,6})\] Child process with PID (\d{1,9}) terminated with code (-?\d{1,4})"
)
_RAISED_IN = re.compile(r"-- Process (\d{1,5}) terminated with the following error")
_COMPOSER = re.compile(
    r"(?:Global rank|Rank) (\d{1,6}) (?:\(PID (\d{1,9})\) exited with code"
    r"|crashed with exit code) (-?\d{1,4})"
)
_SIGNALS = {"SIGKILL": 9, "SIGSEGV": 11, "SIGABRT": 6, "SIGTERM": 15, "SIGBUS": 7, "SIGHUP": 1}
_SRUN_CODES = {
    "Killed": -9, "Out Of Memory": -9, "Segmentation fault": -11, "Bus error": -7, "Aborted": -6,
    "Terminated": -15,
}  # fmt: skip
_BY_LAUNCHER = (-15, -2)
"""Ended by its launcher after something else had failed."""


@dataclass(frozen=True)
class Exit:
    """`rank` -1, `host` '' and `pid` None: unknown. `code`: negative, the signal that ended it."""

    rank: int
    host: str
    pid: int | None
    code: int

    @property
    def is_own(self) -> bool:
        """Whether it ended by itself."""
        return self.code not in (0, *_BY_LAUNCHER)


def exits_in(text: str) -> list[Exit]:
    """Ends of processes that a line or a launcher's box tells of."""
    return list(_found(text))


def spawned_rank(before: str) -> int:
    """The process that torch.multiprocessing names before its traceback; -1 none."""
    found = _RAISED_IN.match(before)
    return int(found[1]) if found else -1


def _found(text: str) -> Iterator[Exit]:
    for found in _IN_BOX.finditer(text):
        yield Exit(int(found[2]), found[1], int(found[4]), int(found[3]))
    for found in _FAILED.finditer(text):
        yield Exit(-1, "", int(found[3]), int(found[1]))
    for found in _SRUN.finditer(text):
        code = int(found[4]) if found[4] else _SRUN_CODES[found[3]]
        code = 128 - code if code > 128 else code
        for task in _numbers(found[2]):
            yield Exit(task, found[1], None, code)
    for found in _MPIRUN.finditer(text):
        if found[1]:
            yield Exit(int(found[1]), found[2], None, -int(found[3]))
        else:
            yield Exit(int(found[4]), "", None, int(found[5]))
    for found in _COMPOSER.finditer(text):
        yield Exit(int(found[1]), "", int(found[2]) if found[2] else None, int(found[3]))
    for found in _SPAWNED.finditer(text):
        if found[4]:
            yield Exit(int(found[4]), "", int(found[5]), int(found[6]))
        else:
            code = -_SIGNALS.get(found[2], 0) if found[2] else int(found[3])
            yield Exit(int(found[1]), "", None, code)


def _numbers(text: str) -> list[int]:
    """Of a list such as 0,2-4; at most 1,000 of them."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            until = int(last) if last.isdigit() else int(first)
            found.extend(range(int(first), min(until, int(first) + 1_000) + 1))
    return found[:1_000]
