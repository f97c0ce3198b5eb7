"""What the kernel refuses to a process of SQL, whatever code runs in it."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.free_sql import kernel

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or "seccomp" in kernel.missing_layers(), reason="no seccomp"
)

_CALLS = """
import ctypes, errno, os, sys
from ingest.free_sql import kernel
libc = ctypes.CDLL(None, use_errno=True)
kernel.prepared_filter()()
number, *rest = map(int, sys.argv[1:])
found = libc.syscall(number, *(ctypes.c_long(one) for one in rest))
print(found, ctypes.get_errno() == errno.EPERM)
"""
OTHERS = {
    "the priority of a process": (141, 0, 0, 10),
    "the scheduler of a process": (144, 0, 0, 0),
    "the processors of a process": (203, 0, 0, 0),
    "the disk's priority of a process": (251, 1, 0, 0),
    "the pages of a process": (279, 0, 0, 0, 0, 0, 0),
    "shared memory": (31, 0, 0, 0),
    "semaphores": (66, 0, 0, 0, 0),
    "messages": (71, 0, 0, 0),
    "a message queue": (241, 0),
    "the disks": (162,),
    "signals by a file": (72, 1, 8, 1),
    "which signal a file sends": (72, 1, 10, 9),
    "locks of files": (73, 0, 6),
    "leases on files": (72, 0, 1024, 0),
    "records of files": (72, 0, 6, 0),
    "records of files, by open file": (72, 0, 37, 0),
    "signals of a folder": (72, 0, 1026, 1),
    "users": (117, -1, -1, -1),
    "users, by two": (113, -1, -1),
    "groups": (119, -1, -1, -1),
    "groups, by two": (114, -1, -1),
    "more groups": (116, 0, 0),
    "the user for files": (122, -1),
    "the group for files": (123, -1),
    "capabilities": (126, 0, 0),
}


@pytest.mark.parametrize("call", OTHERS)
def test_nothing_of_others_is_changed(call: str) -> None:
    command = [sys.executable, "-c", _CALLS, *map(str, OTHERS[call])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["-1", "True"]


_LEASE = """
import fcntl, os, sys
from pathlib import Path
from ingest.free_sql import kernel
folder = Path(sys.argv[1])
kernel.only_read([folder])
kernel.prepared_filter()()
with (folder / "lock").open("rb") as file:
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except PermissionError:
        print("refused")
"""


def test_no_lease_keeps_the_indexer_from_its_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    command = [sys.executable, "-c", _LEASE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "refused\n"
