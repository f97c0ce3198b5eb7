"""Whether a process that the kernel's log names belongs to this job.

The kernel logs numbers of the initial PID namespace, so only a process in that namespace can tell;
in a container every process may be the job's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_INITIAL_NAMESPACE = "pid:[4026531836]"
"""Source: Linux' include/linux/proc_ns.h, PROC_PID_INIT_INO."""
_MOST_PARENTS = 64
REMEMBER_S = 60.0
"""What a rank had started is its own for so long after its end: the kernel's log, which is read
every two seconds, names it before.
"""


def is_in_initial_namespace(proc: Path = Path("/proc")) -> bool:
    """Whether this process sees the processes of the whole host, as outside of a container."""
    with suppress(OSError):
        return str((proc / "self/ns/pid").readlink()) == _INITIAL_NAMESPACE
    return False


class JobProcesses:
    """The ranks of this host, what started them and what they started, also what has ended."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._sees_all = is_in_initial_namespace(proc)
        self._ranks: set[int] = set()
        self._launchers: set[int] = set()
        self._children: dict[int, float] = {}  # and when each was there last (monotonic s)

    def add(self, pids: Iterable[int]) -> None:
        """Processes of ranks."""
        for pid in set(pids) - self._ranks:
            self._ranks.add(pid)
            launcher = self._parent(pid)
            if launcher is not None and launcher > 1:
                self._launchers.add(launcher)

    def look(self) -> None:
        """Note what the ranks have started, such as workers of loaders: once such a process is
        gone, nothing says any more whose it was. Its number is soon that of another process.
        """
        now_s = time.monotonic()
        for pid in self._ranks if self._sees_all else ():
            with suppress(OSError, ValueError):
                path = self._proc / str(pid) / "task" / str(pid) / "children"
                self._children.update(dict.fromkeys(map(int, path.read_bytes().split()), now_s))
        for pid in [pid for pid, seen_s in self._children.items() if now_s - seen_s > REMEMBER_S]:
            del self._children[pid]

    def is_strangers(self, pid: int) -> bool:
        """Whether a process is no rank, nor was started by one as far as /proc still says."""
        if not self._sees_all or not self._ranks or pid in self._launchers:
            return False
        one: int | None = pid
        for _ in range(_MOST_PARENTS):
            if one in self._ranks or one in self._children:
                return False
            one = None if one is None else self._parent(one)
        return True

    def _parent(self, pid: int) -> int | None:
        """Of a process; None where it has ended."""
        with suppress(OSError, ValueError, IndexError):
            fields = (self._proc / str(pid) / "stat").read_bytes()
            return int(fields[fields.rindex(b")") + 2 :].split()[1])
        return None
