"""How a process died: from its exit status, its memory cgroup and the kernel log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until
from trace_hooks.watchdog import deaths
from trace_hooks.watchdog.deaths import Deaths, kernel_text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
        ("raise SystemExit(3)", "it exited with code 3"),
    ],
)
def test_a_process_whose_parent_has_not_waited_for_it(code: str, words: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    stat = Path(f"/proc/{child.pid}/stat")
    seen = Deaths(child.pid)
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
    seen.look()
    child.wait()
    assert seen.how().startswith(words)


def test_nothing_is_known_of_a_process_that_was_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    seen = Deaths(child.pid)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert "SIGKILL" not in seen.how()


def test_kernel_lines_of_this_process() -> None:
    oom = "Memory cgroup out of memory: Killed process 712 (python) total-vm:9kB, anon-rss:8kB"
    fault = "python[713]: segfault at 10 ip 00007f sp 00007f error 4 in libc.so.6"
    xid = "NVRM: Xid (PCI:0000:cb:00): 79, pid=712, GPU has fallen off the bus."
    assert "killed it for lack of memory (Memory cgroup" in kernel_text(712, [xid, oom])
    assert kernel_text(713, [oom, fault]).startswith("it crashed (python[713]: segfault at 10")
    assert kernel_text(714, [oom, xid]) == f"the kernel reported {xid}"
    assert kernel_text(714, [oom, fault]) == ""


@pytest.mark.parametrize(
    ("line", "file"),
    [("0::/job", "job/memory.events"), ("9:memory:/job", "memory/job/memory.oom_control")],
)
def test_kills_are_counted_by_the_memory_cgroup(
    line: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / file
    counter.parent.mkdir(parents=True)
    counter.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    real = Path.read_text
    monkeypatch.setattr(deaths, "_CGROUPS", tmp_path)
    monkeypatch.setattr(
        Path, "read_text", lambda path, *a: line if path.name == "cgroup" else real(path, *a)
    )
    seen = Deaths(os.getpid())
    assert seen.how() == ""
    counter.write_text("oom_kill 5\n")
    assert seen.how() == "its memory cgroup killed a process for lack of memory"
