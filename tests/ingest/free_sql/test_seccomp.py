"""The filter of system calls: what it answers in a process that has it, and the numbers in it."""

from __future__ import annotations

import json
import platform
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.free_sql import kernel, seccomp

HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
MACHINES = list(HEADERS)
LISTED = seccomp._DENIED | seccomp._UNKNOWN

_CALLS = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, sys, threading
from ingest.free_sql import seccomp
libc = ctypes.CDLL(None, use_errno=True)
path = sys.argv[1]
file = os.open(path, os.O_RDONLY)
cpu = resource.getrlimit(resource.RLIMIT_CPU)
seccomp.install(libc, seccomp.program(os.getpid()))

def thread():
    started = threading.Thread(target=int)
    started.start()
    started.join()

def fork():
    if not os.fork():
        os._exit(0)

def call(number):
    if libc.syscall(number, 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "")

calls = {
    "open to read": lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC),
    "read": lambda: os.pread(file, 1, 0),
    "thread": thread,
    "signal to a thread": lambda: signal.pthread_kill(threading.get_ident(), 0),
    "duplicate": lambda: fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 0),
    "limits": lambda: resource.prlimit(0, resource.RLIMIT_CPU),
    "open to write": lambda: os.open(path, os.O_WRONLY),
    "open to append": lambda: os.open(path, os.O_RDONLY | os.O_APPEND),
    "create": lambda: os.open(path + "2", os.O_RDONLY | os.O_CREAT),
    "rename": lambda: os.rename(path, path + "2"),
    "remove": lambda: os.unlink(path),
    "socket": socket.socketpair,
    "fork": fork,
    "run": lambda: os.execv("/bin/true", ["true"]),
    "signal to a process": lambda: os.kill(os.getppid(), 0),
    "lock": lambda: fcntl.fcntl(file, fcntl.F_SETLK, b"\\0" * 32),
    "new limits": lambda: resource.prlimit(0, resource.RLIMIT_CPU, cpu),
    "openat2": lambda: call(437),
    "clone3": lambda: call(435),
}
found = {}
for name, do in calls.items():
    try:
        do()
        found[name] = ""
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
print(json.dumps(found), flush=True)
"""


@pytest.mark.skipif("seccomp" in kernel.missing_layers(), reason="no seccomp")
def test_reading_and_computing_go_on_and_all_else_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    command = [sys.executable, "-c", _CALLS, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)
    by_answer = {error: [n for n in found if found[n] == error] for error in found.values()}
    assert by_answer == {
        "": ["open to read", "read", "thread", "signal to a thread", "duplicate", "limits"],
        "EACCES": ["open to write", "open to append", "create"],
        "EPERM": [
            *("rename", "remove", "socket", "fork", "run", "signal to a process", "lock"),
            "new limits",
        ],
        "ENOSYS": ["openat2", "clone3"],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_have_the_numbers_of_the_kernel(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip("no headers of the kernel")
    text = header.read_text()
    numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", text))
    column = MACHINES.index(machine)
    special = {
        "seccomp": seccomp._SECCOMP,
        "clone": seccomp._CLONE,
        "prlimit64": seccomp._PRLIMIT,
        "fcntl": seccomp._FCNTL,
        "tgkill": seccomp._TGKILL,
    }
    ours = {name: both[column] for name, both in LISTED.items() if both[column] is not None}
    ours |= {name: number[machine] for name, number in special.items()}
    known = {name: int(numbers[name]) for name in ours if name in numbers}
    assert len(known) > 80
    assert {name: ours[name] for name in known} == known


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_has_one_rule(machine: str) -> None:
    column = MACHINES.index(machine)
    listed = [both[column] for both in LISTED.values() if both[column] is not None]
    others = [seccomp._CLONE, seccomp._PRLIMIT, seccomp._FCNTL, seccomp._TGKILL]
    special = [number[machine] for number in others] + [*seccomp._OPENS[machine]]
    assert len({*listed, *special}) == len(listed) + len(special)


@pytest.mark.parametrize("machine", MACHINES)
def test_no_jump_leaves_the_program(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    instructions = list(struct.iter_unpack("=HBBI", seccomp.program(7)))
    kinds = {seccomp._EQUAL, seccomp._AT_LEAST, seccomp._ANY_OF}
    for at, (code, if_true, if_false, _) in enumerate(instructions):
        if code in kinds:
            assert at + 1 + max(if_true, if_false) < len(instructions)
    assert instructions[-1] == (seccomp._RETURN, 0, 0, seccomp._ALLOW)
