"""The kernel's rules for a process that runs SQL of strangers; they hold whatever it is made to do.

Landlock lets it read the run's folders and open nothing for writing, also not what it has open, by
way of /proc/self/fd (Linux 5.13; docs.kernel.org/userspace-api/landlock.html). seccomp takes
from it all calls that write to files, start programs, open sockets or touch other processes. Limits
of resources bound its memory, its time and, at 0 bytes, every file it could write. Both are called
through the C library: there is no wheel of libseccomp, and both interfaces are stable.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from ingest.free_sql import seccomp

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_GET_SECCOMP = 1, 38, 21
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Landlock version -> number of rights to files that it knows; later ones know no more."""
_RANDOM = Path("/dev/urandom")
"""The C++ library reads it for samples."""
_NET_RIGHTS, _SCOPES = 0b11, 0b11
_STACKS_BYTES = 512 << 20
"""Addresses, not memory: stacks of threads, arenas of allocators."""

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Version of the kernel's Landlock, 0 without."""
    version: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    return max(0, version)


def missing_layers() -> list[str]:
    """What of the kernel's rules this machine does not have."""
    missing = [] if landlock_version() else ["Landlock"]
    has_seccomp = seccomp.is_known_machine() and _libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) >= 0
    return missing if has_seccomp else [*missing, "seccomp"]


def die_with_parent() -> None:
    """Have the kernel end this process when its parent ends."""
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def only_read(folders: Sequence[Path]) -> None:
    """From now on this process and its children read files below these folders and open no others;
    nothing happens where the kernel has no Landlock. Raises OSError.
    """
    version = landlock_version()
    if not version:
        return
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    rights = (1 << _RIGHTS_BY_ABI.get(version, 16)) - 1
    attributes = [rights, _NET_RIGHTS if version >= 4 else 0, _SCOPES if version >= 6 else 0]
    used = 1 if version < 4 else 2 if version < 6 else 3
    packed = struct.pack(f"={used}Q", *attributes[:used])
    ruleset = _check(_libc.syscall(_CREATE_RULESET, packed, ctypes.c_size_t(len(packed)), 0))
    try:
        for path in (*folders, _RANDOM):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                readable = _READ_FILE | _READ_DIR if path.is_dir() else _READ_FILE
                rule = struct.pack("=Qi", readable, opened)
                _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
            finally:
                os.close(opened)
        _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def end_first() -> None:
    """Have the kernel end this process and its children first where the machine's memory is short.
    To be called before only_read, which keeps them from /proc.
    """
    with suppress(OSError):  # no /proc
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")


class Addresses:
    """How many addresses this process has taken; works also once only_read holds; in a child
    those of the parent.
    """

    def __init__(self) -> None:
        """To be made before only_read."""
        self._statm: int | None = None
        with suppress(OSError):  # no /proc
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def bytes_taken(self) -> int:
        """Now; where there is no /proc, more than a process takes that has opened a snapshot."""
        if self._statm is None:
            return 1 << 30
        return int(os.pread(self._statm, 64, 0).split()[0]) * resource.getpagesize()


def limit_memory(taken_bytes: int, more_bytes: int) -> None:
    """From now on this process, which has taken `taken_bytes` of addresses, takes this much memory
    more at most and writes no byte of any file.
    """
    _at_most(resource.RLIMIT_FSIZE, 0)
    _at_most(resource.RLIMIT_CORE, 0)
    _at_most(resource.RLIMIT_AS, taken_bytes + more_bytes + _STACKS_BYTES)


def limit_time(cpu_s: float) -> None:
    """The kernel ends this process once its threads have computed for this long together."""
    _at_most(resource.RLIMIT_CPU, math.ceil(cpu_s))


def _at_most(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def prepared_filter() -> Callable[[], None]:
    """What takes away the calls that seccomp.py lists, from all threads of this process; nothing
    without seccomp.
    """
    if not seccomp.is_known_machine():
        return lambda: None
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return partial(seccomp.install, _libc, seccomp.program(os.getpid()))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
