"""Telemetry of real jobs on this machine: as the job's user, as nobody, and switched off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ingest.run import open_run
from tests.folders import REPO
from tests.trace_hooks.processes import begin, rows, run
from tests.trace_hooks.test_kill_collector import collector_of
from tests.waiting import wait_until
from trace_hooks.job.process_info import host_name
from trace_hooks.recording.clock import Anchor
from trace_hooks.telemetry.publisher import Target
from trace_hooks.telemetry.telemetry import RankView, Telemetry

JOB = """
import time
from pathlib import Path
import trace_hooks as th
tracer = th.start(run="sampled")
while not Path("stop").exists():
    with tracer.step():
        time.sleep(0.15)
"""
AS_NOBODY = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from trace_hooks.telemetry.telemetry import RankView, Telemetry
telemetry = Telemetry()
telemetry.update([RankView(0, os.getpid(), 1), RankView(1, 1, 1)], None)
telemetry.start()
time.sleep(3.5)
telemetry.stop()
rows = telemetry._sampler.rows.take()
print(json.dumps([[row[2].device, row[2].metric, row[2].rank, row[4]] for row in rows]))
"""
WITHOUT_TELEMETRY = {"TRACE_HOOKS_TELEMETRY": "0"}


def seconds_of(folder: Path) -> list[dict[str, Any]]:
    """Samples of a metric that is taken once a second."""
    metric = "pressure_cpu_some_seconds_total"
    return [row for row in rows(folder, "host_metrics") if row["metric"] == metric]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a job ran whose watchdog has written all its samples."""
    folder = tmp_path_factory.mktemp("sampled")
    job = begin(folder, JOB)
    try:
        wait_until(lambda: collector_of(folder))
        time.sleep(6)  # it samples once a second
        (folder / "stop").touch()
        job.communicate(timeout=60)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 0
    wait_until(lambda: len(seconds_of(folder)) >= 3)
    wait_until(lambda: any(r["device"] == "process" for r in rows(folder, "host_metrics")))
    return folder


def test_a_job_has_samples_of_its_machine(sampled: Path) -> None:
    found, seconds = rows(sampled, "host_metrics"), seconds_of(sampled)
    assert {r["host"] for r in found} == {host_name()}
    assert {r["device"] for r in found} >= {"host", "process", "net:lo"}
    assert {(r["rank"] >= 0) == (r["device"] == "process") for r in found} == {True}
    assert max(r["step"] for r in seconds) > min(r["step"] for r in seconds)
    steps = sorted(rows(sampled, "steps"), key=lambda r: r["step"])
    assert abs(seconds[-1]["ts_ns"] - steps[-1]["start_ns"]) < 10e9


def test_the_server_opens_such_a_run_and_takes_it_for_no_other_ranks(sampled: Path) -> None:
    with open_run(sampled / "runs" / "sampled") as opened:
        assert opened.ask("rank_list").column("rank").to_pylist() == [0]
        count = "SELECT count(DISTINCT metric) AS n FROM host_metrics WHERE rank = -1"
        assert opened.sql(count).column("n").to_pylist()[0] > 20


@pytest.mark.long
def test_it_can_be_switched_off(tmp_path: Path) -> None:
    job = JOB.replace('while not Path("stop").exists()', "for _ in range(8)")
    assert run(tmp_path, job, **WITHOUT_TELEMETRY)[0] == 0
    time.sleep(4.0)  # the watchdog's end
    assert rows(tmp_path, "steps")
    assert rows(tmp_path, "host_metrics") == []


def test_a_hung_disk_holds_up_no_sample(tmp_path: Path) -> None:
    telemetry = Telemetry()
    not_a_folder = tmp_path / "file"
    not_a_folder.write_text("")
    telemetry.update([RankView(0, os.getpid(), 1)], Target(not_a_folder, 0, 0, 0))
    telemetry.start()
    time.sleep(2.5)
    telemetry.update([RankView(0, os.getpid(), 1)], Target(tmp_path, 0, 0, Anchor().offset_ns))
    telemetry.stop()
    files = list((tmp_path / "segments").glob("host_metrics-*"))
    assert len(files) == 2


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="root can change user")
def test_user_nobody_gets_all_but_what_is_not_theirs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(AS_NOBODY)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    who = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*who, sys.executable, str(script), str(REPO)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    states = {(metric, rank): state for _, metric, rank, state in json.loads(ended.stdout)}
    assert states["pressure_cpu_some_seconds_total", -1] in ("value", "zero")
    assert states["tcp_sent_segments_total", -1] in ("value", "zero")
    assert states["process_read_bytes_total", 0] in ("value", "zero")
    assert states["process_read_bytes_total", 1].startswith("unreadable: Permission denied")
    assert states["process_cpu_seconds_total", 1] == "value"
    restricted = Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() == "1"
    assert states["kernel_log_readable", -1].startswith("unreadable: ") == restricted
