"""The host's own figures: cores, memory, virtual memory, pressure, TCP and disks.

Sources: proc(5), Linux' accounting/psi and admin-guide/iostats. Costs, CPU us each on a small
machine: stat 31, meminfo 30, vmstat 56, pressure 81, snmp 100, netstat 100, diskstats 36.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trace_hooks.telemetry.names import HOST
from trace_hooks.telemetry.reading import OpenFile, Reading, Source, number_after

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SECTOR_BYTES = 512
_RARELY_S = 10.0


class Cpu(Source):
    """/proc/stat: a container sees the whole host."""

    name = "cpu"

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._file = OpenFile(proc / "stat")

    def read(self) -> Iterator[Reading]:
        """Times of all cores together, and what runs."""
        data = self._file.read()
        end = data.index(b"\n")
        user, nice, system, _, iowait, irq, softirq, steal = map(int, data[4:end].split()[:8])
        yield Reading(
            HOST,
            "cpu_busy_seconds_total",
            (user + nice + system + irq + softirq) / _TICKS_PER_S,
        )
        yield Reading(HOST, "cpu_iowait_seconds_total", iowait / _TICKS_PER_S)
        yield Reading(HOST, "cpu_steal_seconds_total", steal / _TICKS_PER_S)
        yield Reading(HOST, "cpu_cores", data.count(b"\ncpu"))
        yield Reading(HOST, "context_switches_total", number_after(data, b"\nctxt "))
        yield Reading(HOST, "processes_running", number_after(data, b"\nprocs_running "))
        yield Reading(HOST, "processes_blocked", number_after(data, b"\nprocs_blocked "))


class Memory(Source):
    """/proc/meminfo."""

    name = "memory"
    every_s = 5.0
    _KEYS = (
        (b"MemTotal:", "memory_total_bytes"),
        (b"MemAvailable:", "memory_available_bytes"),
        (b"Dirty:", "memory_dirty_bytes"),
        (b"SwapFree:", "swap_free_bytes"),
    )

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._file = OpenFile(proc / "meminfo")

    def read(self) -> Iterator[Reading]:
        """Memory that there is, and that is left."""
        data = self._file.read()
        for key, metric in self._KEYS:
            yield Reading(HOST, metric, number_after(data, key) * 1024)


class VirtualMemory(Source):
    """/proc/vmstat: rare events, looked at every ten seconds."""

    name = "virtual_memory"
    every_s = _RARELY_S
    _KEYS = (
        (b"\npgmajfault ", "major_faults_total"),
        (b"\npswpin ", "swapped_in_pages_total"),
        (b"\npswpout ", "swapped_out_pages_total"),
        (b"\npgscan_direct ", "direct_scanned_pages_total"),
        (b"\noom_kill ", "oom_kills_total"),
        (b"\nnuma_miss ", "numa_misses_total"),
    )

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._file = OpenFile(proc / "vmstat")

    def read(self) -> Iterator[Reading]:
        """Counters of virtual memory; a kernel without NUMA or swap lacks some."""
        data = self._file.read()
        for key, metric in self._KEYS:
            if key in data:
                yield Reading(HOST, metric, number_after(data, key))
        stalls = [line for line in data.split(b"\n") if line.startswith(b"allocstall_")]
        if stalls:
            total = sum(int(line.split()[1]) for line in stalls)
            yield Reading(HOST, "allocation_stalls_total", total)


class Pressure(Source):
    """/proc/pressure: of the whole host, also within a container."""

    name = "pressure"

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._files = {kind: OpenFile(proc / "pressure" / kind) for kind in ("cpu", "memory", "io")}

    def read(self) -> Iterator[Reading]:
        """Time in which tasks waited; `full` of the CPU is 0 by definition."""
        for kind, file in self._files.items():
            some_s, full_s = stalled_s(file.read())
            yield Reading(HOST, f"pressure_{kind}_some_seconds_total", some_s)
            if kind != "cpu" and full_s is not None:
                yield Reading(HOST, f"pressure_{kind}_full_seconds_total", full_s)


def stalled_s(data: bytes) -> tuple[float, float | None]:
    """Seconds of a pressure file's lines `some` and `full`; older kernels have no `full`."""
    some, _, full = data.partition(b"\nfull")
    return number_after(some, b"total=") / 1e6, (
        number_after(full, b"total=") / 1e6 if full else None
    )


class Tcp(Source):
    """/proc/net/snmp and netstat: of the network namespace that the process is in."""

    name = "tcp"
    _EXTENDED = (
        (b"TCPTimeouts", "tcp_timeouts_total"),
        (b"TCPSynRetrans", "tcp_syn_retransmits_total"),
        (b"TCPLostRetransmit", "tcp_lost_retransmits_total"),
        (b"ListenDrops", "tcp_listen_drops_total"),
    )

    def __init__(self, proc: Path = Path("/proc"), scope: str = "container") -> None:
        self.scope = scope
        self._snmp = OpenFile(proc / "self" / "net" / "snmp")
        self._netstat = OpenFile(proc / "self" / "net" / "netstat")
        self._round = -1

    def read(self) -> Iterator[Reading]:
        """What was sent, and what had to be sent again; the rarer ones each tenth time."""
        tcp = named_counters(self._snmp.read(), b"Tcp:")
        yield Reading(HOST, "tcp_sent_segments_total", tcp[b"OutSegs"])
        yield Reading(HOST, "tcp_retransmitted_segments_total", tcp[b"RetransSegs"])
        self._round += 1
        if self._round % int(_RARELY_S) == 0:
            extended = named_counters(self._netstat.read(), b"TcpExt:")
            for key, metric in self._EXTENDED:
                yield Reading(HOST, metric, extended[key])


def named_counters(data: bytes, head: bytes) -> dict[bytes, int]:
    """Counters of two lines `HEAD names` and `HEAD values`; LookupError where there are none."""
    lines = [line for line in data.split(b"\n") if line.startswith(head)]
    if len(lines) != 2:
        raise LookupError(f"no {head.decode()}")
    names, values = (line.split()[1:] for line in lines)
    return dict(zip(names, map(int, values), strict=True))


class Disks(Source):
    """/proc/diskstats: whole disks that have been used; a container sees the host's."""

    name = "disks"
    every_s = 2.0
    _NO_DISKS = (b"loop", b"ram", b"zram", b"dm-", b"md", b"sr", b"fd")

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._file = OpenFile(proc / "diskstats")
        self._block = sys / "block"
        self._whole: dict[bytes, bool] = {}

    def read(self) -> Iterator[Reading]:
        """Bytes, requests and times of each disk. Source: Linux' admin-guide/iostats."""
        for line in self._file.read().split(b"\n"):
            fields = line.split()
            if len(fields) < 14 or not self._is_disk(fields[2]) or fields[3] == fields[7] == b"0":
                continue
            device = f"disk:{fields[2].decode()}"
            reads, _, sectors_read, read_ms, writes, _, written, write_ms, _, busy_ms = map(
                int, fields[3:13]
            )
            yield Reading(device, "disk_read_bytes_total", sectors_read * _SECTOR_BYTES)
            yield Reading(device, "disk_written_bytes_total", written * _SECTOR_BYTES)
            yield Reading(device, "disk_busy_seconds_total", busy_ms / 1e3)
            yield Reading(device, "disk_reads_total", reads)
            yield Reading(device, "disk_writes_total", writes)
            yield Reading(device, "disk_read_seconds_total", read_ms / 1e3)
            yield Reading(device, "disk_write_seconds_total", write_ms / 1e3)

    def _is_disk(self, name: bytes) -> bool:
        """Whether it is a whole physical disk: partitions and stacked devices count twice."""
        known = self._whole.get(name)
        if known is None:
            known = not name.startswith(self._NO_DISKS) and (self._block / name.decode()).exists()
            self._whole[name] = known
        return known
