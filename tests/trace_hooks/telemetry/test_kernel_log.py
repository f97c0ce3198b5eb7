"""Lines of the kernel's log, from a pipe that stands for /dev/kmsg, and from the real one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from trace_hooks.telemetry.kernel_log import KernelLog, text_of

XID = "4,900,5000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.\n"


def test_text_of_a_record() -> None:
    assert text_of(b"6,339,5140900,-;eth0: up\n SUBSYSTEM=net\n DEVICE=+net:eth0\n") == "eth0: up"


def test_lines_that_mean_something_become_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    monkeypatch.setattr(os, "lseek", lambda *_: 0)  # a pipe has no end to go to
    log = KernelLog(path)
    list(log.read())
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, XID.encode())
    (reading,) = log.read()
    rows: list[dict[str, Any]] = log.take()
    os.close(writer)
    assert reading.value == 1
    assert [(row["stream"], row["label"]) for row in rows] == [("kernel", "xid_79")]


def test_a_log_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(KernelLog(tmp_path / "kmsg").read())
