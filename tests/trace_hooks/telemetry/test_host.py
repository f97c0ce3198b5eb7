"""The host's figures, of made files with known numbers and of the machine that runs the test."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.trace_hooks.telemetry.made_trees import tree, values
from trace_hooks.telemetry.host import Cpu, Disks, Memory, Pressure, Tcp, VirtualMemory, stalled_s
from trace_hooks.telemetry.names import METRICS

STAT = """cpu  1000 200 300 90000 50 10 20 7 0 0
cpu0 500 100 150 45000 25 5 10 3 0 0
cpu1 500 100 150 45000 25 5 10 4 0 0
intr 1720846 0 0
ctxt 6143727
btime 1795620000
processes 4711
procs_running 7
procs_blocked 3
"""
PSI = "some avg10=96.56 avg60=92.24 avg300=62.26 total={}\n{}"
SNMP = """Ip: Forwarding DefaultTTL
Ip: 2 64
Tcp: RtoAlgorithm OutSegs RetransSegs
Tcp: 1 298344 785
"""
NETSTAT = """TcpExt: ListenDrops TCPLostRetransmit TCPTimeouts TCPSynRetrans
TcpExt: 9 8 7 6
IpExt: InOctets
IpExt: 3
"""
DISKS = """   7       0 loop0 5 0 8 0 0 0 0 0 0 0 0
 254       0 vda 100 1 2000 30 50 2 4000 60 0 70 90 0 0 0 0 5 6
 254       1 vda1 90 1 1900 30 50 2 4000 60 0 70 90
 254      16 vdb 0 0 0 0 0 0 0 0 0 0 0
"""


def test_times_of_all_cores_in_seconds(tmp_path: Path) -> None:
    found = values(Cpu(tree(tmp_path, {"stat": STAT})).read())
    assert found["host", "cpu_busy_seconds_total"] == pytest.approx(15.3)  # 100 ticks a second
    assert found["host", "cpu_iowait_seconds_total"] == 0.5
    assert found["host", "cpu_steal_seconds_total"] == 0.07
    assert found["host", "cpu_cores"] == 2
    assert found["host", "processes_blocked"] == 3
    assert found["host", "context_switches_total"] == 6143727


def test_memory_in_bytes(tmp_path: Path) -> None:
    text = "MemTotal:  100 kB\nMemAvailable:   40 kB\nDirty:  3 kB\nSwapFree:  0 kB\n"
    found = values(Memory(tree(tmp_path, {"meminfo": text})).read())
    assert found["host", "memory_available_bytes"] == 40960
    assert found["host", "swap_free_bytes"] == 0


def test_stalls_of_all_zones_are_summed_and_what_a_kernel_lacks_is_left_out(tmp_path: Path) -> None:
    text = "nr_free 1\nallocstall_dma 1\nallocstall_normal 4\npgmajfault 6\noom_kill 1\n"
    found = values(VirtualMemory(tree(tmp_path, {"vmstat": text})).read())
    assert found == {
        ("host", "allocation_stalls_total"): 5,
        ("host", "major_faults_total"): 6,
        ("host", "oom_kills_total"): 1,
    }


def test_pressure_in_seconds(tmp_path: Path) -> None:
    full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n"
    files = {f"pressure/{kind}": PSI.format(2_000_000, full) for kind in ("cpu", "memory", "io")}
    found = values(Pressure(tree(tmp_path, files)).read())
    assert found["host", "pressure_io_full_seconds_total"] == 0.5
    assert found["host", "pressure_cpu_some_seconds_total"] == 2.0
    assert ("host", "pressure_cpu_full_seconds_total") not in found


def test_an_older_kernel_has_no_full_pressure() -> None:
    assert stalled_s(PSI.format(1_000_000, "").encode()) == (1.0, None)


def test_tcp_counts_by_name_whatever_their_place(tmp_path: Path) -> None:
    source = Tcp(tree(tmp_path, {"self/net/snmp": SNMP, "self/net/netstat": NETSTAT}))
    first, second = values(source.read()), values(source.read())
    assert first["host", "tcp_retransmitted_segments_total"] == 785
    assert first["host", "tcp_timeouts_total"] == 7
    assert set(second) == {
        ("host", "tcp_sent_segments_total"),
        ("host", "tcp_retransmitted_segments_total"),
    }
    assert source.scope == "container"


def test_whole_disks_that_were_used(tmp_path: Path) -> None:
    files = {"proc/diskstats": DISKS, "sys/block/vda/size": "", "sys/block/vdb/size": ""}
    root = tree(tmp_path, files)
    found = values(Disks(root / "proc", root / "sys").read())
    assert {device for device, _ in found} == {"disk:vda"}
    assert found["disk:vda", "disk_read_bytes_total"] == 2000 * 512
    assert found["disk:vda", "disk_busy_seconds_total"] == 0.07


def test_this_machine_gives_only_known_metrics() -> None:
    for source in (Cpu(), Memory(), VirtualMemory(), Pressure(), Tcp(), Disks()):
        found = values(source.read())
        assert {metric for _, metric in found} <= METRICS.keys()


def test_counters_of_this_machine_grow() -> None:
    source = Cpu()
    before = values(source.read())["host", "context_switches_total"]
    time.sleep(0.05)
    assert values(source.read())["host", "context_switches_total"] > before
