"""Processes of ranks: real ones of this machine, ended ones, and those of another user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.trace_hooks.telemetry.made_trees import tree
from trace_hooks.telemetry.processes import Processes

STAT = "5 (a ) b) R 1 1 1 0 -1 0 0 0 11 0 150 50 0 0 20 0 3 0 99 4096 7 0\n"


def test_a_real_process_that_computes() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint('x', flush=True)\ninput()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        source = Processes(lambda: [(3, process.pid)])
        found = {r.metric: r for r in source.read()}
        process.communicate(b"\n")
    assert found["process_cpu_seconds_total"].value >= 0.25
    assert found["process_resident_bytes"].value > 1e6
    assert {r.rank for r in found.values()} == {3}
    assert list(source.read()) == []  # it has ended


def test_a_stopped_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        source = Processes(lambda: [(3, process.pid)])
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        stopped = {r.metric: r.value for r in source.read()}
        os.kill(process.pid, signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        goes_on = {r.metric: r.value for r in source.read()}
        process.communicate(b"\n")
    assert (stopped["process_stopped"], goes_on["process_stopped"]) == (1.0, 0.0)


def test_waiting_for_a_core_is_counted() -> None:
    source = Processes(lambda: [(0, os.getpid())])
    readings = {r.metric: r.value for r in source.read()}
    assert readings["process_wait_seconds_total"] >= 0
    assert readings["process_involuntary_switches_total"] >= 0


def test_what_is_written_once_a_minute_is_read_so(tmp_path: Path) -> None:
    source = Processes(lambda: [(0, os.getpid())])
    first, second = ({r.metric for r in source.read()} for _ in range(2))
    assert first - second == {
        "process_involuntary_switches_total",
        "process_read_bytes_total",
        "process_written_bytes_total",
    }


def test_a_name_with_brackets_and_a_kernel_without_schedstat(tmp_path: Path) -> None:
    files = {"5/stat": STAT, "5/status": "\nnonvoluntary_ctxt_switches:\t4\n"}
    files["5/io"] = "rchar: 1\nread_bytes: 8\nwrite_bytes: 9\n"
    source = Processes(lambda: [(1, 5)], tree(tmp_path, files))
    found = {r.metric: r for r in source.read()}
    assert found["process_cpu_seconds_total"].value == 2.0
    assert found["process_major_faults_total"].value == 11
    assert found["process_threads"].value == 3
    assert found["process_read_bytes_total"].value == 8
    assert found["process_wait_seconds_total"].reason.startswith("not there: ")


def test_files_of_a_rank_that_is_gone_are_closed() -> None:
    ranks = [(0, os.getpid())]
    source = Processes(lambda: ranks)
    list(source.read())
    before = len(list(Path("/proc/self/fd").iterdir()))
    ranks.clear()
    list(source.read())
    assert len(list(Path("/proc/self/fd").iterdir())) <= before - 3
