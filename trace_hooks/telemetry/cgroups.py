"""The job's control group, version 2 or 1: CPU quota, memory, pressure, disks.

The group is that of a rank. Within a container its path may not exist below the mount: then the
mount's root is the container's own group. Sources: Linux' admin-guide/cgroup-v2 and cgroup-v1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from trace_hooks.telemetry.host import stalled_s
from trace_hooks.telemetry.names import CGROUP
from trace_hooks.telemetry.reading import (
    NAN,
    OpenFile,
    Reading,
    Source,
    SourceError,
    number_after,
    reason_of,
)

_UNLIMITED_BYTES = 1 << 60
"""Version 1 writes the greatest number of whole pages for no limit."""

_BYTES = ("cgroup_read_bytes_total", "cgroup_written_bytes_total")

_Read = Callable[[bytes], Iterator[tuple[str, float]]]


class Cgroup(Source):
    """Files of the control group of one process."""

    name = "cgroup"

    def __init__(
        self,
        pid_of: Callable[[], int],
        proc: Path = Path("/proc"),
        mount: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self.scope = "container"
        self._pid_of, self._proc, self._mount = pid_of, proc, mount
        self._pid, self._round = -1, -1
        self._files: list[tuple[OpenFile, _Read]] = []

    def read(self) -> Iterator[Reading]:
        """Every figure that this version of control groups has."""
        pid = self._pid_of()
        if pid != self._pid:
            self._close()
            self._files = self._found(pid)
            self._pid, self._round = pid, -1
        self._round += 1
        for file, read in self._files:
            if read in _EACH_SECOND or self._round % _RARELY == 0:
                try:
                    data = file.read()
                except OSError as error:
                    if read not in _PRESSURE:
                        raise
                    yield Reading(CGROUP, _PRESSURE[read], NAN, reason_of(error))
                    continue
                for metric, value in read(data):
                    yield Reading(CGROUP, metric, value)

    def _close(self) -> None:
        for file, _ in self._files:
            file.close()

    def _found(self, pid: int) -> list[tuple[OpenFile, _Read]]:
        folders = self._folders(pid)
        found: list[tuple[OpenFile, _Read]] = []
        for controller, files in _VERSION_1.items():
            if controller in folders:
                found += _existing(folders[controller], files)
        if "cpu" in folders:
            with suppress(FileNotFoundError):  # a kernel without quotas
                period_us = int((folders["cpu"] / "cpu.cfs_period_us").read_bytes())
                found += _existing(folders["cpu"], {"cpu.cfs_quota_us": _quota_1(period_us)})
        if not found and "" in folders:  # a host with both versions counts in version 1
            found += _existing(folders[""], _VERSION_2)
        if not found:
            raise SourceError(f"not there: no controller of cgroups below {self._mount}")
        return found

    def _folders(self, pid: int) -> dict[str, Path]:
        """Folder of each controller; '' is version 2's."""
        folders: dict[str, Path] = {}
        is_root = True
        text = (self._proc / str(pid) / "cgroup").read_text("utf-8", "replace")
        for line in text.splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                where = self._folder(controller, path.strip("/"))
                if where is not None:
                    folders[controller] = where
                    is_root &= path.strip("/") == ""
        self.scope = "host" if is_root and not self._is_contained() else "container"
        return folders

    def _folder(self, controller: str, path: str) -> Path | None:
        """Where the controller is mounted, down to the group if that can be seen from here."""
        names = (controller, "cpu,cpuacct") if controller in ("cpu", "cpuacct") else (controller,)
        mounts = (
            [self._mount / name for name in names]
            if controller
            else [
                self._mount,
                self._mount / "unified",
            ]
        )
        for mount in mounts:
            if (mount / "cgroup.procs").exists():
                return mount / path if (mount / path).exists() else mount
        return None

    def _is_contained(self) -> bool:
        """Whether the mount's root is itself a limited group, as in a container."""
        with suppress(OSError):
            return (self._mount / "cgroup.type").exists()
        return False


def _existing(folder: Path, files: dict[str, _Read]) -> list[tuple[OpenFile, _Read]]:
    """Those of the files that the kernel has there."""
    return [
        (OpenFile(folder / name), read) for name, read in files.items() if (folder / name).exists()
    ]


def _cpu_stat(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_cpu_seconds_total", number_after(data, b"usage_usec ") / 1e6
    if b"nr_throttled " in data:
        yield "cgroup_cpu_throttled_periods_total", number_after(data, b"nr_throttled ")
        yield "cgroup_cpu_throttled_seconds_total", number_after(data, b"throttled_usec ") / 1e6


def _cpu_stat_1(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_cpu_throttled_periods_total", number_after(data, b"nr_throttled ")
    yield "cgroup_cpu_throttled_seconds_total", number_after(data, b"throttled_time ") / 1e9


def _cpu_max(data: bytes) -> Iterator[tuple[str, float]]:
    quota, period = data.split()
    if quota != b"max":
        yield "cgroup_cpu_limit_cores", int(quota) / int(period)


def _quota_1(period_us: int) -> _Read:
    def read(data: bytes) -> Iterator[tuple[str, float]]:
        if int(data) > 0:  # -1: unlimited
            yield "cgroup_cpu_limit_cores", int(data) / period_us

    return read


def _usage_1(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_cpu_seconds_total", int(data) / 1e9


def _memory_used(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_memory_used_bytes", int(data)


def _memory_limit(data: bytes) -> Iterator[tuple[str, float]]:
    if data.strip() != b"max" and int(data) < _UNLIMITED_BYTES:
        yield "cgroup_memory_limit_bytes", int(data)


def _memory_events(data: bytes) -> Iterator[tuple[str, float]]:
    lines = b"\n" + data
    yield "cgroup_memory_limit_hits_total", number_after(lines, b"\nmax ")
    yield "cgroup_oom_kills_total", number_after(lines, b"\noom_kill ")


def _failcnt_1(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_memory_limit_hits_total", int(data)


def _oom_control_1(data: bytes) -> Iterator[tuple[str, float]]:
    if b"\noom_kill " in data:
        yield "cgroup_oom_kills_total", number_after(data, b"\noom_kill ")


def _cpu_pressure(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_pressure_cpu_some_seconds_total", stalled_s(data)[0]


def _memory_pressure(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_pressure_memory_full_seconds_total", stalled_s(data)[1] or 0.0


def _io_pressure(data: bytes) -> Iterator[tuple[str, float]]:
    yield "cgroup_pressure_io_full_seconds_total", stalled_s(data)[1] or 0.0


def _io_stat(data: bytes) -> Iterator[tuple[str, float]]:
    """Lines `MAJOR:MINOR rbytes=.. wbytes=..`, one a disk."""
    fields = [field for line in data.split(b"\n") for field in line.split()[1:]]
    for key, metric in (
        (b"rbytes=", "cgroup_read_bytes_total"),
        (b"wbytes=", "cgroup_written_bytes_total"),
    ):
        yield metric, sum(int(field[len(key) :]) for field in fields if field.startswith(key))


def _blkio_1(data: bytes) -> Iterator[tuple[str, float]]:
    """Lines `MAJOR:MINOR Read 123`, one a disk and direction."""
    lines = [line.split() for line in data.split(b"\n")]
    for key, metric in (
        (b"Read", "cgroup_read_bytes_total"),
        (b"Write", "cgroup_written_bytes_total"),
    ):
        yield metric, sum(int(line[2]) for line in lines if len(line) == 3 and line[1] == key)


_EACH_SECOND: frozenset[_Read] = frozenset(
    (
        _cpu_stat,
        _cpu_stat_1,
        _usage_1,
        _memory_used,
        _cpu_pressure,
        _memory_pressure,
        _io_pressure,
    )
)
"""Of the files that these read a detector needs something; the others are read each tenth time."""
_RARELY = 10

_PRESSURE: dict[_Read, str] = {
    _cpu_pressure: "cgroup_pressure_cpu_some_seconds_total",
    _memory_pressure: "cgroup_pressure_memory_full_seconds_total",
    _io_pressure: "cgroup_pressure_io_full_seconds_total",
}
"""Metrics of files that are there but cannot be read (EOPNOTSUPP) where the kernel counts no
pressure, which is what RHEL starts with.
"""

_VERSION_2: dict[str, _Read] = {
    "cpu.stat": _cpu_stat,
    "cpu.max": _cpu_max,
    "memory.current": _memory_used,
    "memory.max": _memory_limit,
    "memory.events": _memory_events,
    "cpu.pressure": _cpu_pressure,
    "memory.pressure": _memory_pressure,
    "io.pressure": _io_pressure,
    "io.stat": _io_stat,
}
_VERSION_1: dict[str, dict[str, _Read]] = {
    "cpu": {"cpu.stat": _cpu_stat_1},
    "cpuacct": {"cpuacct.usage": _usage_1},
    "memory": {
        "memory.usage_in_bytes": _memory_used,
        "memory.limit_in_bytes": _memory_limit,
        "memory.failcnt": _failcnt_1,
        "memory.oom_control": _oom_control_1,
    },
    "blkio": {"blkio.throttle.io_service_bytes": _blkio_1},
}
