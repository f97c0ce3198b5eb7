"""How a rank's process ended, as far as its host tells: exit status, memory cgroup, kernel log.

The watchdog is not the parent of a rank, so that it reads an exit status only of a process that
its parent has not waited for yet. Out-of-memory kills are counted by the process' memory cgroup,
and the kernel log names the process, or a GPU's Xid; a container may read neither.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

RECENT_S = 60.0
"""Kernel lines are of this death where they are not older."""

_MOST_LINES = 20_000
_CGROUPS = Path("/sys/fs/cgroup")
_COUNTERS = {"": "{}/memory.events", "memory": "memory/{}/memory.oom_control"}
"""By the controllers in /proc/PID/cgroup: those of version 2 are not named."""
_KERNEL_LOG = Path("/dev/kmsg")
_KILLED = re.compile(r"(?:Out of memory|Memory cgroup out of memory): Killed process (\d+)")
_FAULT = re.compile(r"\S+\[(\d+)\]: (?:segfault|trap|general protection)")
_XID = re.compile(r"NVRM: Xid \([^)]*\): \d+.*")


class Deaths:
    """What is known of one process while it lives, to say later how it died."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._kills = _kill_counter(pid)
        self._kills_before = _kills(self._kills)
        self._status: int | None = None

    def look(self) -> None:
        """Note its exit status if it has ended and its parent has not waited for it yet."""
        if self._status is None:
            self._status = _status_of_zombie(self._pid)

    def how(self) -> str:
        """Clauses such as 'killed by SIGKILL, out of memory'; '' where nothing is known."""
        self.look()
        clauses = [_status_text(self._status)] if self._status is not None else []
        kernel = kernel_text(self._pid, _recent_kernel_lines())
        if kernel:
            clauses.append(kernel)
        elif _kills(self._kills) > self._kills_before >= 0:
            clauses.append("its memory cgroup killed a process for lack of memory")
        return ", ".join(clauses)


def kernel_text(pid: int, lines: list[str]) -> str:
    """What the kernel said about a process, or about a GPU at that time; '' nothing."""
    for line in lines:
        killed, fault = _KILLED.search(line), _FAULT.search(line)
        if killed and int(killed[1]) == pid:
            return f"the kernel killed it for lack of memory ({line[killed.start() :][:120]})"
        if fault and int(fault[1]) == pid:
            return f"it crashed ({line[fault.start() :][:120]})"
    xids = [found[0][:160] for line in lines if (found := _XID.search(line))]
    return f"the kernel reported {xids[0]}" if xids else ""


def _status_text(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(ValueError):
            return f"killed by {signal.Signals(number).name}"
        return f"killed by signal {number}"
    return f"it exited with code {os.WEXITSTATUS(status)}"


def _status_of_zombie(pid: int) -> int | None:
    """Wait status; source: proc(5), fields 3 and 52 of stat, the latter 0 where not permitted."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        if fields[0] == "Z" and (status := int(fields[49])):
            return status
    return None


def _kill_counter(pid: int) -> Path | None:
    """File that counts out-of-memory kills of a process' memory cgroup (version 2 or 1)."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text("utf-8", "replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in _COUNTERS:
                file = _CGROUPS / _COUNTERS[controllers].format(path.strip("/"))
                if file.exists():
                    return file
    return None


def _kills(file: Path | None) -> int:
    """Processes killed so far; -1 unknown."""
    if file is not None:
        with suppress(OSError, ValueError):
            for line in file.read_text("ascii", "replace").splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    return -1


def _recent_kernel_lines() -> list[str]:
    """Lines of the kernel log of the last RECENT_S; none where it may not be read."""
    lines: list[str] = []
    after_us = (time.clock_gettime(time.CLOCK_MONOTONIC) - RECENT_S) * 1e6
    with suppress(OSError):
        descriptor = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
        try:
            for _ in range(_MOST_LINES):
                head, _, text = os.read(descriptor, 8192).decode("utf-8", "replace").partition(";")
                if float(head.split(",")[2]) >= after_us:
                    lines.append(text.splitlines()[0])
        finally:
            os.close(descriptor)
    return lines
