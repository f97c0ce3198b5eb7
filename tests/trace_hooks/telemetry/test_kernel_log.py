"""Lines of the kernel's log, from a pipe that stands for /dev/kmsg, and from the real one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_hooks.telemetry.kernel_log import KernelLog, text_of

XID = "4,900,5000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.\n"


def test_text_of_a_record() -> None:
    assert text_of(b"6,339,5140900,-;eth0: up\n SUBSYSTEM=net\n DEVICE=+net:eth0\n") == "eth0: up"


@pytest.fixture
def rows_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[float, list[dict[str, Any]]]]:
    """Number of lines and the rows, of what is written into a pipe."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    monkeypatch.setattr(os, "lseek", lambda *_: 0)  # a pipe has no end to go to

    def read(*records: str, **options: Any) -> tuple[float, list[dict[str, Any]]]:
        log = KernelLog(path, **options)
        list(log.read())
        writer = os.open(path, os.O_WRONLY)
        for record in records:
            os.write(writer, record.encode())
        (reading,) = log.read()
        os.close(writer)
        return reading.value, log.take()

    return read


Read = Callable[..., tuple[float, list[dict[str, Any]]]]


def test_lines_that_mean_something_become_rows(rows_of: Read) -> None:
    num_lines, rows = rows_of(XID)
    assert num_lines == 1
    assert [(row["stream"], row["label"]) for row in rows] == [("kernel", "xid_79")]


def test_what_another_jobs_program_did_is_left_out(rows_of: Read) -> None:
    """As an H200's driver wrote it while another program broke its own context."""
    fault = "channel 0x00000032, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 faulted"
    records = [
        f"4,901,6000,-;NVRM: Xid (PCI:0000:00:06): 31, pid=508, name=python3, {fault}\n",
        f"4,902,7000,-;NVRM: Xid (PCI:0000:00:06): 31, pid=504, name=python3, {fault}\n",
        "4,903,8000,-;NVRM: Xid (PCI:0000:00:06): 79, pid=508, GPU has fallen off the bus.\n",
    ]
    num_lines, rows = rows_of("".join(records[:1]), is_strangers=lambda pid: pid != 504)
    assert (num_lines, rows) == (1, [])
    _, rows = rows_of(records[1], is_strangers=lambda pid: pid != 504)
    assert [row["label"] for row in rows] == ["xid_31"]
    _, rows = rows_of(records[2], is_strangers=lambda pid: pid != 504)
    assert [row["label"] for row in rows] == ["xid_79"]  # the GPU's, whoever used it


def test_a_log_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(KernelLog(tmp_path / "kmsg").read())
