"""Logs of the kernel and the journal: of no rank, but of a host, with that host's times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ingest.readers.logs.log_files import TRACEBACK, column, imported_lines

XID = "NVRM: Xid (PCI:0000:cb:00): 79, pid=4711, GPU has fallen off the bus."
AT_NS = 1776099080 * 10**9


@pytest.mark.parametrize(
    "line",
    [
        f"2026-04-13T16:51:20+0000 gpu-node011 kernel: {XID}",
        f"2026-04-13T16:51:20.000000+00:00 gpu-node011 kernel: {XID}",
        f"Apr 13 16:51:20 gpu-node011 kernel: {XID}",
    ],
    ids=["short-iso", "rsyslog", "short"],
)
def test_lines_of_the_journal(folder: Path, runs: Path, line: str) -> None:
    """The year of a time without one comes from the other log."""
    logs = {"kern.log": f"{line}\n", "rank_0.log": "2026-04-13 16:51:00,000 - INFO - step 1\n"}
    kernel, _ = imported_lines(folder, runs, logs)
    assert (kernel.text, kernel.ts_ns, kernel.timed) == (XID, AT_NS, "own")
    assert (kernel.host, kernel.rank, kernel.stream) == ("gpu-node011", -1, "kernel")
    assert kernel.label == "xid_79"


def test_a_year_before_new_year(folder: Path, runs: Path) -> None:
    """The other log ends two days later, in the next year."""
    logs = {
        "kern.log": f"Dec 30 23:59:59 gpu-node011 kernel: {XID}\n",
        "rank_0.log": "2027-01-01 00:00:01 step 1\n",
    }
    kernel, rank = imported_lines(folder, runs, logs)
    assert rank.ts_ns - kernel.ts_ns == (24 * 3600 + 2) * 10**9


def test_the_journal_as_json(folder: Path, runs: Path) -> None:
    """The kernel, a traceback in one message, and bytes that are no text."""
    common = {"__CURSOR": "s=0", "__REALTIME_TIMESTAMP": "1776099080000000", "_HOSTNAME": "node7"}
    entries = [
        {**common, "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": XID},
        {**common, "SYSLOG_IDENTIFIER": "python3", "_PID": "41", "MESSAGE": TRACEBACK},
        {**common, "SYSLOG_IDENTIFIER": "slurmd", "_PID": "9", "MESSAGE": "error: gone"},
        {**common, "SYSLOG_IDENTIFIER": "app", "MESSAGE": [1, 2, 3]},
    ]
    text = "\n".join(map(json.dumps, entries)) + '\n{"__REALTIME_TIMESTAMP": "x"}\nnull\n'
    lines = imported_lines(folder, runs, {"node7.json": text})
    assert column(lines, "stream", "text") == [
        ("kernel", XID),
        ("log", TRACEBACK),
        ("scheduler", "slurmd: error: gone"),
        ("log", "app: (binary)"),
    ]
    assert set(column(lines, "host", "ts_ns", "rank")) == {("node7", AT_NS, -1)}


def test_a_job_that_writes_to_the_journal(folder: Path, runs: Path) -> None:
    """Each line of a traceback has the journal's prefix; other daemons keep their name."""
    lead = "Apr 13 16:51:20 node7 python[4711]: [rank5]: "
    text = "".join(f"{lead}{line}\n" for line in TRACEBACK.split("\n"))
    text += f"{lead}over\nApr 13 16:51:21 node7 kubelet[1]: OOMKilled\n"
    lines = imported_lines(folder, runs, {"unit.log": text})
    assert column(lines, "rank", "text") == [
        (5, TRACEBACK),
        (5, "over"),
        (-1, "kubelet: OOMKilled"),
    ]


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("dmesg-gpu-node011.txt", "gpu-node011"),
        ("gpu-node011.dmesg", "gpu-node011"),
        ("gpu-node011-kern.log", "gpu-node011"),
        ("kern.log.1", ""),
        ("dmesg.txt", ""),
    ],
)
def test_the_kernel_s_own_time_says_nothing(folder: Path, runs: Path, name: str, host: str) -> None:
    """Seconds since boot; the name of the file may say whose kernel it is."""
    (line,) = imported_lines(folder, runs, {name: f"[ 4000.318492] {XID}\n"})
    assert (line.ts_ns, line.timed, line.label) == (-1, "none", "xid_79")
    assert (line.host, line.rank, line.stream) == (host, -1, "kernel")


def test_dmesg_with_times(folder: Path, runs: Path) -> None:
    text = f"[Mon Apr 13 16:51:20 2026] {XID}\n2026-04-13T16:51:20,000000+00:00 {XID}\n"
    lines = imported_lines(folder, runs, {"node3/dmesg": text, "node4/dmesg": text})
    assert set(column(lines, "ts_ns")) == {AT_NS}
    assert column(lines, "host") == ["node3", "node3", "node4", "node4"]
