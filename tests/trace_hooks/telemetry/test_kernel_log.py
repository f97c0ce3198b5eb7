"""Lines of the kernel's log, from a pipe that stands for /dev/kmsg, and from the real one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_hooks.telemetry import kernel_log
from trace_hooks.telemetry.job_processes import JobProcesses
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
        num_lines, rows = 0.0, list[dict[str, Any]]()
        for record in records:  # a read of a pipe would take several at once
            os.write(writer, record.encode())
            (reading,) = log.read()
            num_lines, rows = reading.value, rows + log.take()
        os.close(writer)
        return num_lines, rows

    return read


Read = Callable[..., tuple[float, list[dict[str, Any]]]]


def test_lines_that_mean_something_become_rows(rows_of: Read) -> None:
    num_lines, rows = rows_of(XID)
    assert num_lines == 1
    assert [(row["stream"], row["label"]) for row in rows] == [("kernel", "xid_79")]


class Job(JobProcesses):
    """Process 504 is of the job, all others are strangers."""

    def is_strangers(self, pid: int) -> bool:
        return pid != 504


def labels(rows_of: Read, *texts: str) -> list[str]:
    records = [f"4,{900 + n},6000,-;{text}\n" for n, text in enumerate(texts)]
    _, rows = rows_of(*records, processes=Job())
    return [row["label"] for row in rows]


FAULT = "channel 0x00000032, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 faulted"


def test_what_another_jobs_program_did_is_left_out(rows_of: Read) -> None:
    """As an H200's driver wrote it while another program broke its own context."""
    texts = [
        f"NVRM: Xid (PCI:0000:00:06): 31, pid=508, name=python3, {FAULT}",
        f"NVRM: Xid (PCI:0000:00:06): 31, pid=504, name=python3, {FAULT}",
        "NVRM: Xid (PCI:0000:00:06): 79, pid=508, GPU has fallen off the bus.",
    ]
    assert labels(rows_of, *texts) == [
        "xid_31",
        "xid_79",
    ]  # the latter is the GPU's, whoever used it


INVOKED = "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
CHOSEN = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task=python,pid={}"
KILLED = "Memory cgroup out of memory: Killed process {} (python) total-vm:3236308kB"


def test_the_killers_lines_count_where_it_took_a_process_of_the_job(rows_of: Read) -> None:
    killer = (INVOKED, "Call Trace:", *(text.format(508) for text in (CHOSEN, KILLED)))
    assert labels(rows_of, *killer) == []
    own = (INVOKED, "Call Trace:", *(text.format(504) for text in (CHOSEN, KILLED)))
    cgroup = "kernel_oom_cgroup"
    assert labels(rows_of, *killer, *own) == ["kernel_oom", cgroup, cgroup]
    assert labels(rows_of, *own, *killer) == ["kernel_oom", cgroup, cgroup]


def test_an_announcement_without_a_victim_counts_after_a_while(
    rows_of: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert labels(rows_of, INVOKED) == []
    monkeypatch.setattr(kernel_log, "_TOGETHER_NS", -1)
    assert labels(rows_of, INVOKED) == ["kernel_oom"]


def test_in_a_container_all_lines_count(rows_of: Read) -> None:
    _, rows = rows_of(f"4,1,1,-;{INVOKED}\n", f"4,2,1,-;{KILLED.format(508)}\n")
    assert [row["label"] for row in rows] == ["kernel_oom", "kernel_oom_cgroup"]


def test_a_log_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(KernelLog(tmp_path / "kmsg").read())
