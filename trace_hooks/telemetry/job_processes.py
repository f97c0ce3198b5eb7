"""Whether a process that the kernel's log names belongs to this job.

The kernel logs numbers of the initial PID namespace, so only a process in that namespace can tell;
in a container every process may be the job's.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_INITIAL_NAMESPACE = "pid:[4026531836]"
"""Source: Linux' include/linux/proc_ns.h, PROC_PID_INIT_INO."""
_MOST_PARENTS = 64


def is_in_initial_namespace(proc: Path = Path("/proc")) -> bool:
    """Whether this process sees the processes of the whole host, as outside of a container."""
    with suppress(OSError):
        return str((proc / "self/ns/pid").readlink()) == _INITIAL_NAMESPACE
    return False


class JobProcesses:
    """The ranks of this host, also those that have ended, and what they started."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._sees_all = is_in_initial_namespace(proc)
        self._ranks: set[int] = set()

    def add(self, pids: Iterable[int]) -> None:
        """Processes of ranks."""
        self._ranks.update(pids)

    def is_strangers(self, pid: int) -> bool:
        """Whether a process is no rank, nor was started by one as far as /proc still says."""
        if not self._sees_all or not self._ranks:
            return False
        for _ in range(_MOST_PARENTS):
            if pid in self._ranks:
                return False
            try:
                fields = (self._proc / str(pid) / "stat").read_bytes()
            except OSError:  # it has ended
                return True
            pid = int(fields[fields.rindex(b")") + 2 :].split()[1])
        return True
